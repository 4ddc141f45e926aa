"""Converts an episode of the current generation to our result."""

from __future__ import annotations

import math
from typing import Any

from .. import steps
from ..attempts import Attempt, Result
from ..failures import ENVIRONMENT, INFRASTRUCTURE, JUDGE, LIMIT, POLICY, VERIFIER, BadReward, Failure, of_provider_text
from ..jsonable import to_json
from ..legacy.results import messages
from ..needs.reading import lacking_in_text

RETRYABLE = {408, 409, 425, 429}
SCORING_TIMED_OUT = ("TaskError", "scoring timed out")  # the form in 0.3.1; 0.4.0 has a stop condition for it


def to_result(attempt: Attempt, episode: Any, state_columns: list[str], *, several: bool) -> Result:
    """Convert one finished episode; traces of several agents are joined, the policy's first.

    several: whether its environment may run several agents; each trace is then told as a part, also if it is the only.
    """
    result = Result(library=_library(episode))
    traces = sorted(episode.traces, key=lambda trace: not _trainable(trace))
    for trace in traces:
        prefix = "" if len(traces) == 1 else f"{trace.agent.name}."
        _add_scores(result, trace, prefix)
    own = [trace for trace in traces if _trainable(trace)] or traces
    if own:
        first = own[0]
        result.prompt, result.completion = conversation(first)
        result.truncated = any(bool(trace.is_truncated) for trace in own)
        result.stop_condition = first.stop_condition
        result.generation_s = float(first.timing.agent.duration)
        result.scoring_s = float(first.timing.scoring.duration)
        result.usage = _usage(own)
        result.extras = {name: to_json(getattr(first.state, name, None)) for name in state_columns}
    result.failure = failure(attempt, episode)
    if result.failure is None:
        reward = sum(float(trace.reward) for trace in own) / max(1, len(own))
        if math.isfinite(reward):
            result.reward = reward
        else:
            result.failure = Failure(VERIFIER, "BadReward", f"the reward is {reward}, not a finite number")
    if result.failure is None:
        _add_steps(result, traces)
        if several or not all(map(_trainable, traces)):
            result.agents = tuple(map(_part, traces))
    return result


def _part(trace: Any) -> dict[str, Any]:
    """Return an AgentPart: what tells one agent's calls from another's, and what each is worth."""
    return {
        "id": str(trace.id),  # the library sends it with each of the trace's calls
        "name": str(trace.agent.name)[:200] if trace.agent is not None else "",
        "task": str(trace.task.key or trace.task.hash or "")[:200],
        "reward": float(trace.reward) if math.isfinite(trace.reward) else 0.0,  # only of an agent that is not trained
        "trainable": _trainable(trace),
    }


def _add_steps(result: Result, traces: list[Any]) -> None:
    try:
        result.steps = steps.of_traces(traces)
    except BadReward as error:
        result.failure = Failure(VERIFIER, "BadReward", str(error))


def _trainable(trace: Any) -> bool:
    return trace.agent is None or bool(trace.agent.trainable)


def _library(episode: Any) -> Any:
    """Return the library's own record, without token tensors."""
    try:
        return to_json(episode.model_dump(mode="json", exclude_none=True, fallback=repr))
    except Exception:  # noqa: BLE001 - user-defined states may not serialise
        return {"repr": repr(episode)[:4000]}


def _add_scores(result: Result, trace: Any, prefix: str) -> None:
    for name, reward in (trace.rewards or {}).items():
        if reward is not None and math.isfinite(reward.score):
            result.metrics[prefix + name] = float(reward.score)
            result.weights[prefix + name] = float(reward.weight)
    for name, value in (trace.metrics or {}).items():
        if isinstance(value, int | float) and math.isfinite(value):
            result.metrics[prefix + name] = float(value)
            result.weights.setdefault(prefix + name, 0.0)


def conversation(trace: Any) -> tuple[Any, Any]:
    """Return (prompt, completion): the last branch's messages, split at the model's first."""
    branches = trace.branches
    if not branches:
        return _opening(trace), []
    all_messages = messages(to_json([message.model_dump(exclude_none=True) for message in branches[-1].messages]))
    first = next((i for i, message in enumerate(all_messages) if message.get("role") == "assistant"), None)
    split = len(all_messages) if first is None else first
    return all_messages[:split], all_messages[split:]


def _opening(trace: Any) -> Any:
    data = trace.task.data
    opening: list[Any] = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
    if isinstance(data.prompt, str):
        return [*opening, {"role": "user", "content": data.prompt}]
    return [*opening, *to_json(data.prompt or [])]


def _usage(traces: list[Any]) -> tuple[int, int]:
    prompt = completion = 0
    for trace in traces:
        usage = trace.usage
        if usage is not None:
            prompt += int(usage.prompt_tokens or 0)
            completion += int(usage.completion_tokens or 0)
    return prompt, completion


def failure(attempt: Attempt, episode: Any) -> Failure | None:
    """Return why an episode failed; None if it is complete."""
    too_late = Failure(VERIFIER, "ScoringTimeout", "the scoring did not finish within the taskset's own time limit")
    # the library counts that as complete
    if any(trace.stop_condition == "scoring_timeout" for trace in episode.traces):
        return too_late
    if episode.ok:
        return None
    scored = [trace for trace in episode.traces if trace.errors and not trace.ok]
    errors = [(error, trace) for trace in scored for error in trace.errors[-1:]]
    errors.extend((error, None) for error in episode.errors[-1:])
    if not errors:
        return Failure(LIMIT if episode.is_timeout else ENVIRONMENT, "EpisodeFailed", "the episode did not complete")
    error, trace = errors[0]
    if (error.type, error.message) == SCORING_TIMED_OUT:
        return too_late
    said = error.type, error.message[:8000], (error.traceback or "")[-8000:]
    return Failure(_kind(error, trace, attempt), *said, lacking_in_text(*said))


def kind_outside(error: Any) -> str | None:
    """Return the failure kind of a trace's error if the model's endpoint or the host caused it, else None."""
    marked = of_provider_text(text_of(error))
    if marked is not None:
        return marked
    if error.type == "ProviderError":
        status = error.status_code or 502
        return INFRASTRUCTURE if status >= 500 or status in RETRYABLE else POLICY
    return INFRASTRUCTURE if error.type in {"InterceptionError", "TunnelError", "SandboxError"} else None


def text_of(error: Any) -> str:
    """Return message and traceback of a trace's error."""
    return f"{error.message}\n{error.traceback or ''}"


def _kind(error: Any, trace: Any, attempt: Attempt) -> str:
    outside = kind_outside(error)
    if outside is not None:
        return outside
    scored = trace is not None and trace.timing.scoring.start
    if (error.type == "TaskError" and scored) or (error.type in {"TaskError", "EnvError"} and attempt.scoring):
        return JUDGE if "/judge/" in text_of(error) else VERIFIER
    return ENVIRONMENT
