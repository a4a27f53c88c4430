"""An OpenAI-compatible serving cluster in which every lifecycle operation is a durable job."""

__version__ = "0.1.0"
