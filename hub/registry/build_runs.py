"""Registers the run kind `build`, and listens for what versions wait for. Imported by apps.py."""

from envhub.protocol.runs import RunKind

from hub.core.needs import listen
from hub.registry.services import follow_build, recheck_waiting
from hub.registry.wire import build_payload
from hub.runs.kinds import RunKindSpec, register

register(RunKindSpec(kind=RunKind.BUILD, queue="build", payload=build_payload, on_transition=follow_build))
listen(recheck_waiting)
