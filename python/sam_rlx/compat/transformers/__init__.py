"""Drop-in for transformers: classes of the Segment Anything family."""
