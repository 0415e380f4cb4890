"""Arguments and arrays at the border."""
