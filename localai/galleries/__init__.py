"""Which models can be installed by name, and how their bytes are fetched."""
