"""How runs reach the code that executes them: Celery brings them, the host process gives each a place."""
