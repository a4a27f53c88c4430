"""The engine of every lifecycle operation."""
