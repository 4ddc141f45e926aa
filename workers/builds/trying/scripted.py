"""The trial rollout of a build: one example answered by a script, which shows what scoring and tools need."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from envhub.protocol.base import JsonObject
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from envhub.protocol.registry.needs import Need
from envhub.protocol.runner import Described, Group, Hello, Policy, SplitInfo
from envhub.protocol.runs import FailureKind

from workers.builds.record import Record
from workers.builds.trying.mismatch import mismatch
from workers.rollouts.needs import tells_of_a_program, told
from workers.rollouts.package_stores import GATEWAY
from workers.rollouts.sandbox_use import awaited_in_vain, blamed
from workers.rollouts.session import Runner
from workers.rollouts.unmet import Unmet

GROUP = "build"
CHECK = "scripted-rollout"
SECONDS = 120.0
MOST_BYTES = 2 * 1024**2  # size limit of a rollout in a build's report
NO_EXAMPLES = (
    "without arguments it has no examples; choose its data in each run (--env-args, [eval.taskset]), or set "
    "[tool.envhub] build_args in pyproject.toml, which builds load it with"
)


@dataclass(frozen=True)
class Scripted:
    """The rollout, or None if there was none.

    `mismatch`: a code and a message if another release of verifiers may do better.
    """

    rollout: JsonObject | None = None
    mismatch: tuple[str, str] | None = None


async def run_scripted(runner: Runner, hello: Hello, described: Described, unmet: Unmet, record: Record) -> Scripted:
    """Run the rollout and record its check. If rollouts are compared, run two and show the first.

    Raises RunnerFatal, RunnerGone.
    """
    split = next((name for name in ("eval", "train") if described.splits.get(name, SplitInfo(size=0)).size != 0), None)
    if split is None:  # many packages choose their data by an argument
        record.add(CHECK, True, f"not tried: {NO_EXAMPLES}")
        return Scripted()
    n = 2 if hello.requires_group else 1
    tried = await _try(runner, split, n, unmet, GROUP)
    if tried is not None and tried.awaited and unmet.broker is not None:
        await unmet.broker.fetch(tried.awaited)
        tried = await _try(runner, split, n, unmet, f"{GROUP}-again")
    if tried is None:
        record.add(CHECK, False, "the runner reported no rollout")
        return Scripted()
    rollout, needs = tried.rollout, unmet.needs(tried.needs)
    failure = None if needs else rollout.failure
    code = mismatch(failure) if failure else ""
    slow = failure and failure.kind is FailureKind.LIMIT and rollout.turns  # it went on without what it asked in vain
    if failure and not slow and (not code or tells_of_a_program(failure.message)):
        needs = unmet.behind(failure.message)
    _judge(rollout, needs, record, spent=tried.spent)
    misfit = (code, failure.message) if code and failure and not needs else None
    return Scripted(shown(rollout), misfit)


@dataclass(frozen=True)
class Tried:
    """A rollout as it ended. `needs`: what the runner says; `spent`: it made as many model calls as a check may.

    `awaited`: images that were still being fetched when its time was over, as on a host that has none yet.
    """

    rollout: RolloutRecord
    needs: tuple[Need, ...]
    spent: bool
    awaited: tuple[str, ...]


async def _try(runner: Runner, split: str, n: int, unmet: Unmet, name: str) -> Tried | None:
    began = datetime.now(UTC)
    recorders = [unmet.interceptor.open(f"{name}.{suffix}") for suffix in (*map(str, range(n)), "g")]
    *own, shared = (recorder.key for recorder in recorders)
    url = f"{GATEWAY}/r/{{rollout}}/v1"
    policy = Policy(base_url=url, keys=tuple(own), group_key=shared, model="hub/scripted")
    async with aclosing(runner.run(_group(name, split, policy, n))) as rollouts:  # a group ends before the next begins
        async for done in rollouts:
            turns = tuple(turn for recorder in recorders for turn in recorder.turns)
            rollout = done.record.model_copy(update={"turns": turns})
            awaited: tuple[str, ...] = ()
            if unmet.broker is not None:
                machines = [machine for key in (*own, shared) for machine in await unmet.broker.end_rollout(key)]
                awaited = tuple(machine.wish.image for machine in awaited_in_vain(rollout, machines))
                rollout = blamed(rollout, machines, began)
            return Tried(rollout, done.needs, any(recorder.calls_spent for recorder in recorders), awaited)
    return None


def shown(rollout: RolloutRecord) -> JsonObject | None:
    """Shorten a rollout for the report: an agent that follows a script may make turns without end."""
    turns = [rollout.turns[: len(rollout.turns) >> halved] for halved in range(len(rollout.turns).bit_length() + 1)]
    less: list[dict[str, Any]] = [
        {},
        {"library": {}, "extras": {}},
        *({"turns": some} for some in turns),
        {"completion": None},
    ]
    for left_out in less:
        rollout = rollout.model_copy(update=left_out)
        if len(rollout.model_dump_json()) <= MOST_BYTES:
            return rollout.model_dump(mode="json")
    return None


def _group(name: str, split: str, policy: Policy, n: int) -> Group:
    return Group(
        id=name,
        example=0,
        n=n,
        split="train" if split == "train" else "eval",
        policy=policy,
        seed=0,
        deadline_s=SECONDS,
        scripted=True,
    )


def _judge(rollout: RolloutRecord, needs: tuple[Need, ...], record: Record, *, spent: bool) -> None:
    """Record the check. A scripted answer proves little, so only what breaks is reported.

    `spent`: the rollout made as many model calls as a check may make. A game that the script never finishes counts
    as working.
    """
    failure = rollout.failure
    failed = rollout.outcome is Outcome.FAILED and failure is not None
    trace = failure.traceback if failure else ""
    if needs:
        said = f": {failure.message}" if failed and failure else ""
        record.add(CHECK, False, f"needs {told(needs)}{said}", trace, needs)
    elif failed and failure and failure.kind is FailureKind.LIMIT and spent:
        record.add(CHECK, True, f"not over after {len(rollout.turns)} model calls, the most that a check makes")
    elif failed and failure:
        record.add(CHECK, False, f"{failure.kind.value} failure: {failure.type}: {failure.message}", trace)
    else:
        calls = len(rollout.turns)
        reward = "(none)" if rollout.reward is None else f"{rollout.reward:.4g}"
        record.add(CHECK, True, f"reward {reward} after {calls} model call{'s'[: calls != 1]}")
