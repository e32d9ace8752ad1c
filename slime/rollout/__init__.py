"""Generation loops: one round of samples for training, and evaluation over a held-out set."""
