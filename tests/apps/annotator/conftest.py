"""Fixtures of sessions and widgets."""

from support.interactive import chrome, image, model, predictor, server  # noqa: F401
