"""Registers the run kind `build`. Imported by apps.py once the models are loaded."""

from envhub.protocol.runs import RunKind

from hub.registry.services import follow_build
from hub.registry.wire import build_payload
from hub.runs.kinds import RunKindSpec, register

register(RunKindSpec(kind=RunKind.BUILD, queue="build", payload=build_payload, on_transition=follow_build))
