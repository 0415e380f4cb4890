"""Programs of the package index on Meta's packages and on the drop-ins: `upstream_programs.py`."""
