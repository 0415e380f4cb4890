"""``ultralytics.engine``: results."""
