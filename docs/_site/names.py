"""The role `known`: a name in single backticks is a link if a page has it, and code if not.

Docstrings put arguments, attributes, classes and methods into single backticks. Most arguments have
no page, which is no error.
"""

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.roles import XRefRole


class KnownRole(XRefRole):
    """A reference to a Python object, searched from the class and module that it is written in."""

    def process_link(
        self,
        env: BuildEnvironment,
        refnode: nodes.Element,
        has_explicit_title: bool,
        title: str,
        target: str,
    ) -> tuple[str, str]:
        """Remember class and module; calls and arguments are found by their name."""
        refnode["known"] = True
        refnode["refdomain"] = "py"
        refnode["reftype"] = "obj"
        for key in ("module", "class"):
            refnode[f"py:{key}"] = env.ref_context.get(f"py:{key}")
        return title, target.split("(")[0].removesuffix("=")


def _leave_unknown(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Show a name without a page as code."""
    return content if node.get("known") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the role."""
    app.add_role("known", KnownRole(innernodeclass=nodes.literal))
    app.connect("missing-reference", _leave_unknown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
