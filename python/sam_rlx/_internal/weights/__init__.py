"""Checkpoints: where they are, and files of weights."""
