"""A part of the Docker Engine API over a session of the broker: containers are its sandboxes."""

from workers.broker.docker.service import SOCKET, docker_variables, serve_docker

__all__ = ["SOCKET", "docker_variables", "serve_docker"]
