"""Fixtures of a server's application, and a browser."""

from support.interactive import (  # noqa: F401
    chrome,
    client,
    engine,
    idle_client,
    idle_engine,
    image,
    model,
    png,
    png_text,
    predictor,
)
