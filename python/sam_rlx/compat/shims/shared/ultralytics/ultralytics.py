"""Found on ``PYTHONPATH`` by the child processes of a program: becomes the drop-in."""

from sam_rlx.compat.common.take_over import replace

replace(__name__)
