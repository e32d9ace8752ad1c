"""Doctree of an experiment: plain docutils nodes, which every builder can write."""
