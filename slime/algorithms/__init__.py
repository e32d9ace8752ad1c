"""Advantages, policy losses, KL estimators, corrections and reductions as pure tensor functions; only torch.

`groups` alone is plain Python and imports nothing, so that the documentation computes with it, too.
"""
