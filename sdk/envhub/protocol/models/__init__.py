"""Models: the catalog, endpoints, inference, deployments."""
