"""API of the registry, one module a resource."""
