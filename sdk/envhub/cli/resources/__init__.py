"""What runs use beside environments: models, deployments, secrets, data."""
