"""Files: which ones are inputs, how results are named and recognised, what may be written over."""
