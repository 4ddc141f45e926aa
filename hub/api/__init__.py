"""REST API root: router, authentication, schema, docs page."""
