"""Prompts in, samples through, training batches out. Plain Python and NumPy data, cheap to ship."""
