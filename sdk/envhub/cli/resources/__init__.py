"""What runs use beside environments (models, deployments, secrets, data), and for whom they are (teams)."""
