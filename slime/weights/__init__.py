"""Names and layouts of weights, Hugging Face <-> Megatron, and conversion of whole checkpoints."""
