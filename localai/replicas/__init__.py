"""Which replicas exist and may be routed to."""
