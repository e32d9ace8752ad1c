"""Tests of the experiment package."""
