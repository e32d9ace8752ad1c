"""Tests of `slime train` and of the command line."""
