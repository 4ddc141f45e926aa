"""The program inside the box: drives an environment with its own interpreter and its own verifiers release.

Standard library only, relative imports only: it is mounted as `envhub_runner` beside the package, never installed.
"""
