"""Make the published packages importable beside any PyTorch, as for the package's own tests."""

import support.upstream  # noqa: F401
