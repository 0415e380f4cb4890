"""Parts of `sam_rlx.parity`: the reference, what is compared, and files of results."""
