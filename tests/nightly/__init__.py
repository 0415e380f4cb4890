"""Long runs against faults, for every night: see ``__main__``."""
