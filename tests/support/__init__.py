"""Tools of the test suite: reference models, parity rules, tiny checkpoints and images."""

# Only a process that hangs takes so long, on a busy machine too.
HANG_SECONDS = 3600
