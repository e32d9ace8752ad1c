"""slime: reinforcement learning post-training with SGLang and Megatron-Core."""
