"""Sphinx: ``sphinx-build -W -n docs build/site``.

Pages of public names and of commands are made by `_site`, from the installed package. The notebooks
are run when they are read.
"""

import os
import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["COLUMNS"] = "88"  # of the usage of commands

project = "sam_rlx"
author = "The sam_rlx developers"
copyright = author
version = release = metadata.version("sam_rlx")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "_site.names",
    "_site.pages",
    "_site.search_words",
]
exclude_patterns = ["_site", "_static"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

nb_execution_mode = "force"
nb_execution_in_temp = True  # they write files
nb_execution_raise_on_error = True
nb_execution_timeout = 600
# A widget needs a kernel: the page has the cell that makes it, and no scripts of other hosts.
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_ipywidgets_js = {}

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types stand in the docstrings
autodoc_inherit_docstrings = True
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
# Single backticks in docstrings are names, which are links where a page has that name.
default_role = "known"
smartquotes = False  # options of commands begin with two hyphens

html_theme = "furo"
html_title = f"sam_rlx {release}"
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
