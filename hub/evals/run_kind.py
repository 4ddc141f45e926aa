"""Makes evaluation runs known to hub.runs; imported once, when the apps are ready."""

from envhub.protocol.runs import RunKind

from hub.evals.services.lifecycle import follow_run
from hub.evals.wire import eval_payload
from hub.runs.kinds import RunKindSpec, register

register(RunKindSpec(kind=RunKind.EVAL, queue="eval", payload=eval_payload, on_transition=follow_run))
