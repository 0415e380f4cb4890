"""Parts of the network: ``sam2.modeling``; all but `sam2_base` can be imported only."""
