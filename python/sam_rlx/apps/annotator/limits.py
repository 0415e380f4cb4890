"""Limits of one session, of a page or of a notebook."""

MAX_POINTS = 1000  # of an object, and of what a message lists
MAX_OBJECTS = 10_000  # of an image or video
MAX_WAITING = 1000  # requests of views that wait for their turn
MAX_WAITING_BYTES = 200_000_000  # of files in them
MAX_VIEWS = 1000
MAX_UNDO_BYTES = 200_000_000  # in memory, of masks that only an undo brings back
MAX_EDITS = 10_000  # that undo knows
MAX_KEPT_EDITS = 1000  # that undo knows after a restart
MAX_RECENT = 1000  # messages of views that are known to be done
MAX_ITEMS = 100_000  # of a project
MAX_FRAMES = 10_000_000  # of an item
MAX_SIDE = 1 << 16  # pixels of an item
MAX_SNAPSHOT_BYTES = 1 << 31
MAX_LINE_BYTES = 1 << 29  # of the log
MAX_LABELS = 1000  # of a label image
MAX_POINTS_PER_SIDE = 64  # of everything mode, where a view asks for them
MAX_CLASSES = 1000  # of a project
MAX_PATH = 20_000  # points of a stroke
MAX_RADIUS = 200.0  # pixels, of a brush
MAX_SMOOTH = 50.0  # pixels, of the disc that smooths
MAX_SPLIT = 500  # objects that one split makes
MAX_LEVEL = 8  # of tiles: a pixel stands for 256 x 256
MAX_TILES = 64  # that one message asks for
