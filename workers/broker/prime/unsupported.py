"""Routes of the original service that this hub does not offer; each answers with what to use instead."""

from __future__ import annotations

from aiohttp import web

from workers.broker.refusals import Handler, Refusal

API = "/api/v1"
SSH = "this hub opens no SSH sessions: execute commands, or use hub sandbox shell from outside"
NETWORKS = "this hub joins no sandboxes to networks: let one reach another's port by the address that expose() gives"
VOLUMES = "this hub mounts no volumes: upload what the sandbox needs with upload_file"
CHECKPOINTS = "this hub keeps no checkpoints of sandboxes: start from an image (docker_image)"
IMAGES = (
    "images are not built from inside a run: add one to the hub with hub image add NAME, then name it as docker_image"
)
CREDENTIALS = "registry credentials are the operator's here: name the image as docker_image, without credentials"
LACKING = {
    "/sandbox/{sandbox}/ssh-session{tail:.*}": SSH,
    "/sandbox/networks{tail:.*}": NETWORKS,
    "/sandbox/volumes{tail:.*}": VOLUMES,
    "/sandbox/checkpoints{tail:.*}": CHECKPOINTS,
    "/sandbox/{sandbox}/checkpoints{tail:.*}": CHECKPOINTS,
    "/images{tail:.*}": IMAGES,
    "/template/{tail:.*}": CREDENTIALS,
    "/container_registry{tail:.*}": CREDENTIALS,
}


def add_lacking(app: web.Application) -> None:
    """Add these routes; call this before the routes of single sandboxes are added."""
    for path, text in LACKING.items():
        app.router.add_route("*", API + path, _refuse(text))


def _refuse(text: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        raise Refusal(501, text)

    return handle
