"""What runs use beside environments (models, deployments, secrets, data, images), and for whom they are (teams)."""
