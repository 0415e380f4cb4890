"""Files: how they are written, found and named."""
