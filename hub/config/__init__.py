"""Settings, root URLs, ASGI entry point and the app list; imports everything, is imported by nothing."""
