"""Metrics: computed from samples, printed, and written for later."""
