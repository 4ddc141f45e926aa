"""The serve kind of run."""

from envhub.protocol.runs import RunKind

from hub.inference.services import follow_run, serve_payload
from hub.runs.kinds import RunKindSpec, register

register(RunKindSpec(kind=RunKind.SERVE, queue="serve", payload=serve_payload, on_transition=follow_run))
