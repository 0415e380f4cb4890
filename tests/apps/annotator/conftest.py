"""Fixtures of sessions and widgets, and of pages in a browser."""

from support.interactive import chrome, image, model, predictor, server, servers  # noqa: F401
from support.views import address, folder, view  # noqa: F401
