"""Classes by upstream's module names: ``sam3.model``."""
