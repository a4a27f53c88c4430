"""How long the rows have been observed without a gap, and stored times that a clock left ahead of now."""
