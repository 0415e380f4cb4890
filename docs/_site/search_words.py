"""Words by which a task is searched, and the page that the search of the site shows for each.

They become main entries of the index, which Sphinx's search puts before words in the text.
"""

from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

WORDS = {
    "batch": ("batch", "parquet", "interrupted"),
    "checkpoints": ("lora", "adapter", "safetensors", "checkpoint"),
    "coming_from": ("segment-anything", "ultralytics", "transformers"),
    "compat": ("drop-in",),
    "cookbook/aerial": ("geojson", "geotiff", "polygon", "polygons", "satellite", "qgis"),
    "cookbook/cells": ("count", "cells", "csv", "napari", "measure", "coins"),
    "cookbook/checkpoint_ci": ("ci", "github actions"),
    "cookbook/clip": ("track", "matte", "mattes", "rotoscope"),
    "cookbook/coco_boxes": ("coco", "boxes to masks"),
    "cookbook/cut_outs": ("cut out", "cut-out", "background removal", "transparent"),
    "cookbook/encode_once": ("embedding", "embeddings"),
    "cookbook/label_folder": ("yolo", "label", "annotate", "dataset"),
    "cookbook/many_images": ("ray", "duckdb", "resume"),
    "cookbook/similar": ("similarity", "similar", "search"),
    "cookbook/small_machine": ("quantize", "gguf", "raspberry pi", "small machine"),
    "features": ("features", "feature vector"),
    "gpu_encoder": ("gpu", "cuda"),
    "install": ("install", "docker", "container"),
    "jupyter": ("jupyter", "notebook", "widget"),
    "large_images": ("tiles", "large image", "large images", "tile"),
    "parity": ("parity", "same masks"),
    "performance": ("speed", "performance", "memory"),
    "precision": ("int8", "bfloat16", "precision"),
    "serve": ("serve", "browser", "label studio", "x-anylabeling", "cvat"),
    "text_prompts": ("text prompt", "text prompts", "text"),
    "which_model": ("which model", "mobilesam", "edgetam"),
    "video": ("video", "videos", "camera"),
}


class AddSearchWords(SphinxTransform):
    """Add a page's words to the index."""

    default_priority = 200  # before the domain of the index collects its entries

    def apply(self, **_: Any) -> None:
        """Put the entries before the text."""
        words = WORDS.get(self.env.docname, ())
        if words:
            entries = [("single", word, "", "main", None) for word in words]
            self.document.insert(0, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform."""
    app.add_transform(AddSearchWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
