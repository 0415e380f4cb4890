"""Fixtures of sessions and widgets."""

from support.interactive import chrome, image, model, predictor, server, servers  # noqa: F401
