"""Prompts in, samples through, training batches out. NumPy and plain Python only: no torch, so that data crosses Ray cheaply."""
