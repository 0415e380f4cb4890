"""Many images and clips: the plan, the work on a block, and the engines that share it out."""
