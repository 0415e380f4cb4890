"""Formats of results."""
