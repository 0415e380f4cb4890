"""Helpers under upstream's module names."""
