"""Images and clips as files."""
