"""Programs made of the library: they are used through public modules."""
