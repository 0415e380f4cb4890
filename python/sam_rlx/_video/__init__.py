"""Parts of the video predictor: frames, objects, files."""
