"""Quantised Hugging Face checkpoints: FP8 and INT4, written and read back."""
