"""The tiny experiment's material, made locally: tokenizer, addition data, a warm-started Qwen3 of 0.4 M parameters."""
