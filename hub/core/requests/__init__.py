"""What every request passes before its view, and every answer after it."""
