"""``ultralytics.data``: the annotator."""
