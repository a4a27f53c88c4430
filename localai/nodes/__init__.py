"""The machines of the cluster and the lives of their agents."""
