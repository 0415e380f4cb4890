"""What is drawn on images: captions, masks."""
