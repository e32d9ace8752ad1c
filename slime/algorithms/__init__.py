"""Advantages, policy losses, KL estimators, corrections and reductions as pure tensor functions; only torch."""
