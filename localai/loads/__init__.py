"""The cold load as a kind of job."""
