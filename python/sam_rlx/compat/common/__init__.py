"""What the drop-in modules share."""
