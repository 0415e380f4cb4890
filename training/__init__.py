"""Scenes, losses and runs that made the small demonstration checkpoints."""
