"""The serve kind of run."""

from datetime import timedelta

from envhub.protocol.runs import RunKind

from hub.inference.services import follow_run, serve_payload
from hub.runs.kinds import RunKindSpec, register

register(
    RunKindSpec(
        kind=RunKind.SERVE,
        queue="serve",
        payload=serve_payload,
        on_transition=follow_run,
        farewell=timedelta(minutes=5),  # answers that are under way end
    )
)
