"""Tools of the test suite: reference models, parity rules, tiny checkpoints and pictures."""
