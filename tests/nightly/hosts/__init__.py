"""The widget in apps of other hosts: ``nox -s hosts -- panel``; all without a name."""
