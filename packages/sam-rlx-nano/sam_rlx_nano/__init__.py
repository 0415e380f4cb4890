"""Weights of the small models of ``sam_rlx``, which finds them in this folder."""
