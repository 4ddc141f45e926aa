"""Finished groups made by hand, as environments and interceptor record them."""

from __future__ import annotations

from collections.abc import Sequence

from envhub.protocol.evals.rollouts import Outcome, RolloutFailure, RolloutRecord, TokenData, Turn, Usage
from envhub.protocol.runs import FailureKind

from workers.training.coordinator.plan import FinishedGroup, GroupPlan


def turn(index: int, prompt: Sequence[int], completion: Sequence[int], *, version: int = 0) -> Turn:
    """A policy turn with its tokens."""
    tokens = TokenData(
        prompt_ids=tuple(prompt), completion_ids=tuple(completion), logprobs=tuple(-0.5 for _ in completion)
    )
    return Turn(index=index, protocol="chat", model="m", request={}, response={}, tokens=tokens, policy_version=version)


def record(example: int, rollout: int, reward: float | None, *turns: Turn) -> RolloutRecord:
    """A scored rollout; without a reward, a failed one."""
    failed = reward is None
    return RolloutRecord(
        example=example,
        rollout=rollout,
        example_hash="0" * 64,
        outcome=Outcome.FAILED if failed else Outcome.OK,
        reward=reward,
        metrics={} if failed else {"exact": float(reward or 0)},
        failure=RolloutFailure(kind=FailureKind.ENVIRONMENT, type="Error", message="broken") if failed else None,
        turns=turns,
        usage=Usage(prompt_tokens=2, completion_tokens=3),
    )


def group(number: int, rewards: Sequence[float | None], *, version: int = 0, label: str = "a") -> FinishedGroup:
    """One turn of three tokens a rollout."""
    plan = GroupPlan(number=number, label=label, example=number, n=len(rewards), temperature=1.0)
    records = [
        record(number, index, reward, turn(0, [1, 2], [3, 4, 5 + index], version=version))
        for index, reward in enumerate(rewards)
    ]
    return FinishedGroup(plan=plan, records=tuple(records))
