"""How a model is taken off every node without cutting a request."""
