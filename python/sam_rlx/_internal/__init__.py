"""Helpers of the library: nothing here is public."""
