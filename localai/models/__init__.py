"""Which models are configured, as their files on disk say."""
