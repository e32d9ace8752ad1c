"""The tiny experiment's material, made on this machine: tokenizer, addition data, and a warm-started Qwen3 of 0.4 M parameters."""
