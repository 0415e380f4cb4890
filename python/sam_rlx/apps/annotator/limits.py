"""Limits of one session, of a page or of a notebook."""

MAX_POINTS = 1000  # of an object, and of what a message lists
MAX_OBJECTS = 10_000  # of an image or video
MAX_WAITING = 1000  # requests of views that wait for their turn
MAX_WAITING_BYTES = 200_000_000  # of files in them
MAX_VIEWS = 1000
MAX_UNDO = 300  # changes
MAX_UNDO_BYTES = 1 << 28  # of masks that only an undo brings back
MAX_LABELS = 1000  # of a label image
MAX_POINTS_PER_SIDE = 64  # of everything mode, where a view asks for them
