"""Which node gets a model."""
