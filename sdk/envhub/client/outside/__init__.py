"""What leads to servers that users name: their addresses, the HTTP client that calls them, model endpoints."""
