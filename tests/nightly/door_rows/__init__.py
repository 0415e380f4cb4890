"""Trials of doors, a module for each group of them."""
