"""The training backend on Megatron-Core: model, packing, log-probs, optimizer, checkpoints. `MegatronTrainer` joins them."""
