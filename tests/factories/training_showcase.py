"""Training runs that look used: one going on, one that ended with its adapter, a failed and a waiting one."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from django.utils import timezone
from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import positions, write_segment
from envhub.protocol.accounts.links import ShareLinkRequest
from envhub.protocol.evals.replays import Replay
from envhub.protocol.evals.rollouts import Outcome, RolloutFailure, RolloutRecord, Timing, TokenData, Turn, Usage
from envhub.protocol.runs import FailureKind, RunState
from envhub.protocol.training.metrics import EnvironmentStep, EvaluationPoint, Histogram, StepMetrics
from envhub.protocol.training.runs import (
    EvaluationReport,
    RolloutTokens,
    StepReport,
    StepSegment,
    TokenTraining,
    TrainingIndexRow,
    TrainingRequest,
)
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.evals.services import add_label, add_note, save_view
from hub.links.services import create_link
from hub.runs.models import Run
from hub.runs.services.logs import append_log
from hub.training.annotation_targets import place_in_training, target_of_training
from hub.training.models import Step, TrainingRun
from hub.training.queries import get_rollout, read_record
from hub.training.services import create_training, report_adapter, report_checkpoint, report_evaluation, report_step
from hub.training.services.steps import Guard
from tests.factories.evals import create_hosted, make_record, make_records, succeed
from tests.factories.evals import start as start_evaluation
from tests.factories.evals import store as store_evaluation
from tests.factories.registry import create_ready_version
from tests.factories.storage import make_blob
from tests.factories.training_runs import adapter_report, checkpoint_report, create_trainable, start

LABELS = ("reverse-text", "guess-number")
SHARED = (  # fields that index rows of evaluations have too
    *("outcome", "reward", "metrics", "failure_kind", "failure_message", "asked", "answered", "target", "turns"),
    *("duration_s", "row_group", "row"),
)
GROUP = 8
TOML = """# Reverse a text, and guess a number in a few turns.
name = "{name}"
model = "{model}"
max_steps = {steps}
batch_size = 64             # rollouts of a step
rollouts_per_example = 8
learning_rate = 1e-4
secrets = []

[sampling]
max_tokens = 512

[[env]]
id = "reverse-text"
ratio = 2.0

[[env]]
id = "guess-number"

[eval]
interval = 10
num_examples = 50

[[eval.env]]
id = "reverse-text"

[trainer]
mode = "lora"
rank = 16
"""
LOG = (
    "the torch engine serves\nreverse-text: max_seq_len is not enforced here; max_total_tokens and max_turns are\n"
    "learner: 212 adapters of rank 16, 1.3 M trained weights\nlearner: step 1: 4096 tokens in 3 micro-batches\n"
    "step 1: reward 0.112, 2310 tokens trained\n\x1b[31mlearner: <b>not bold</b>\x1b[0m\n"
    "step 2: reward 0.121, 2284 tokens trained\n"
)


@dataclass(frozen=True)
class TrainingShowcase:
    """What there is to look at. `rollout` is (step, index) of a rollout of several turns in `running`."""

    user: User
    running: TrainingRun
    ended: TrainingRun
    failed: TrainingRun
    waiting: TrainingRun
    rollout: tuple[int, int]
    shared: str  # the path of a share link to `running`
    replay: str  # the path of a replay of `rollout`


def make_training_showcase(user: User, *, steps: int = 180, of: int = 300) -> TrainingShowcase:
    """All of it, in the user's own namespace."""
    for name in LABELS:
        if not user.owner.environments.filter(name=name).exists():
            create_ready_version(user, name)
    create_trainable(user.owner, "tiny")
    running = _run(user, "reverse-and-guess", of)
    start(running)
    fill(running, steps)
    _log(running)
    _say(user, running, steps)
    ended = _run(user, "reverse-lora", 40)
    start(ended)
    fill(ended, 40, seed=3)
    _finish(ended)
    _measure(user, f"{user.username}/reverse-lora")
    failed = _run(user, "too-large", 100)
    start(failed)
    failure = {"kind": "limit", "code": "out_of_memory", "message": "the learner ran out of memory at step 1",
               "hint": "lower token_budget in [trainer]"}  # fmt: skip
    Run.objects.filter(pk=run_of(failed).pk).update(state="failed", failure=failure, finished_at=timezone.now())
    TrainingRun.objects.filter(pk=failed.pk).update(state="failed", finished_at=timezone.now())
    waiting = _run(user, "", 100)
    for one in (running, ended, failed, waiting):
        one.refresh_from_db()
    address = create_link(user=user, request=ShareLinkRequest(training=str(running.pk)))[1]
    replay = _replay(user, running, steps)
    return TrainingShowcase(user, running, ended, failed, waiting, (steps, GROUP), urlsplit(address).path, replay)


def _replay(user: User, training: TrainingRun, step: int) -> str:
    """From its second call on; says something else in the end."""
    row = get_rollout(training, step, GROUP)
    record = read_record(row)
    of = Replay(training=str(training.pk), step=step, rollout=GROUP, calls=1)
    found = create_hosted(user, name=row.environment, replay=of)
    start_evaluation(found)
    said = (*(record.completion or ())[:-1], {"role": "assistant", "content": "I have thought again: **12**."})
    store_evaluation(found, [make_record(row.example, prompt=record.prompt, completion=said, reward=0.5)])
    succeed(found)
    return f"/evaluations/{found.pk}/rollouts/{row.example}/0"


def _say(user: User, training: TrainingRun, step: int) -> None:
    """What members have said of the rollout that tests look at, and a view that they keep."""
    of, place = target_of_training(training), place_in_training(training, get_rollout(training, step, GROUP), step)
    for name in ("reward-hack", "good"):
        add_label(user=user, of=of, place=place, name=name)
    add_note(user=user, of=of, place=place, text="It answers *before* it has read the question.")
    save_view(user=user, of=of, name="left out", query={"used": "no"})


def _run(user: User, name: str, steps: int) -> TrainingRun:
    toml = TOML.format(name=name, model=f"{user.username}/tiny", steps=steps)
    request = TrainingRequest(toml=toml, env={"TOOL_KEY": "hush-hush"}, visibility=Visibility.PRIVATE)
    return create_training(user=user, owner=user.owner, request=request)


def fill(training: TrainingRun, steps: int, *, seed: int = 7) -> None:
    """`steps` steps; the last two with their rollouts."""
    rng = random.Random(seed)
    began = timezone.now() - timedelta(seconds=14 * steps)
    assert training.run_id is not None
    bare = []
    for step in range(1, steps - 1):
        metrics = make_metrics(rng, step, steps, at_s=14 * step).model_copy(
            update={"at": began + timedelta(seconds=14 * step)}
        )
        bare.append(
            Step(training=training, step=step, metrics=metrics.model_dump(mode="json", exclude={"evaluations"}))
        )
    Step.objects.bulk_create(bare)
    for step in range(max(1, steps - 1), steps + 1):
        metrics = make_metrics(rng, step, steps, at_s=0).model_copy(update={"at": began + timedelta(seconds=14 * step)})
        report_step(training=training, report=make_report(rng, metrics), guard=_guard(training))
    for step in range(0, steps + 1, max(10, steps // 20)):
        report_evaluation(training=training, report=EvaluationReport(point=_point(rng, step, steps)),
                          guard=_guard(training))  # fmt: skip
    report_checkpoint(training=training, report=checkpoint_report(steps // 2), guard=_guard(training))
    report_checkpoint(training=training, report=checkpoint_report(steps), guard=_guard(training))
    report_adapter(training=training, report=adapter_report(steps // 2, reward_mean=0.4), guard=_guard(training))
    TrainingRun.objects.filter(pk=training.pk).update(state=RunState.RUNNING.value, started_at=began)


def _guard(training: TrainingRun) -> Guard:
    return lambda: run_of(training)


def run_of(training: TrainingRun) -> Run:
    """The run that works on it."""
    assert training.run is not None
    return Run.objects.get(pk=training.run.pk)


def make_metrics(rng: random.Random, step: int, steps: int, *, at_s: float = 0.0) -> StepMetrics:
    """A step of a run that learns."""
    done = step / steps
    learnt = 1 / (1 + math.exp(-9 * (done - 0.4)))
    first = min(1.0, max(0.0, 0.08 + 0.82 * learnt + rng.gauss(0, 0.03)))
    second = min(1.0, max(0.0, 0.2 + 0.45 * done + rng.gauss(0, 0.05)))
    rewards = [min(1.0, max(0.0, rng.gauss(first, 0.25))) for _ in range(64)]
    advantages = [rng.gauss(0, 0.25 * (1 - 0.6 * learnt)) for _ in range(64)]
    zero = min(0.95, 0.1 + 0.6 * learnt * learnt)
    environments = {
        "reverse-text": EnvironmentStep(reward_mean=first, rollouts=48, turns_mean=1.0, groups=6,
                                        completion_tokens_mean=12 + 60 * done + rng.gauss(0, 3)),
        "guess-number": EnvironmentStep(reward_mean=second, rollouts=24, turns_mean=2.0 + done, groups=3,
                                        completion_tokens_mean=90 - 30 * done + rng.gauss(0, 5), prefix_breaks=3),
    }  # fmt: skip
    return StepMetrics(
        step=step, version=step, reward_mean=(2 * first + second) / 3, reward_std=0.25, environments=environments,
        rewards=_histogram(rewards), advantages=_histogram(advantages),
        losses={"loss": rng.gauss(-0.002, 0.01), "squared_log_ratio": abs(rng.gauss(0.002, 0.0006))},
        kl=abs(rng.gauss(0.012, 0.004)), kl_max=0.4, entropy=max(0.05, 1.6 - 1.3 * learnt + rng.gauss(0, 0.04)),
        ratio_mean=1 + rng.gauss(0, 0.002), ratio_max=1.6 + abs(rng.gauss(0, 0.5)),
        masked_positive=abs(rng.gauss(0.01, 0.004)),
        masked_negative=abs(rng.gauss(0.014, 0.005)),
        grad_norm=abs(rng.gauss(0.5, 0.15)) + (2.5 if step % 61 == 0 else 0),
        learning_rate=1e-4 * (1 - done * 0.9), groups=8, rollouts=64, samples=66, tokens=5200,
        trained_tokens=int(2300 + 500 * done), micro_batches=3, token_budget=2048,
        dropped={"zero_signal": int(72 * zero), "stale": 2}, zero_signal_share=zero,
        truncated_share=abs(rng.gauss(0.13, 0.03)), failed_share=0.02 if step % 9 == 0 else 0.0, prefix_breaks=3,
        staleness_mean=0.8 + rng.gauss(0, 0.1), staleness_max=rng.choice([1, 2, 2, 3]), inflight=96,
        tokens_per_s=9200 + rng.gauss(0, 300), trained_tokens_per_s=4100 + rng.gauss(0, 150),
        sampled_tokens_per_s=1350 + rng.gauss(0, 80),
        seconds={"step": 14 + rng.gauss(0, 0.6), "learn": 2.2, "publish": 0.3,
                 "evaluate": 6.0 if step % 10 == 0 else 0.1},
        memory={"learner": int(612e6 + 4e6 * (step % 7)), "engine": int(420e6)},
    )  # fmt: skip


def _histogram(values: Sequence[float], bins: int = 20) -> Histogram:
    low, high = min(values), max(values)
    width = (high - low) / bins or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / width))] += 1
    return Histogram(low=low, high=high, counts=tuple(counts))


def _point(rng: random.Random, step: int, steps: int) -> EvaluationPoint:
    learnt = 1 / (1 + math.exp(-9 * (step / steps - 0.4)))
    mean = 0.06 + 0.8 * learnt + rng.gauss(0, 0.02)
    counts = {"rollouts": 50, "examples": 50, "split": "eval"}
    return EvaluationPoint(label="reverse-text", step=step, reward_mean=mean, reward_std_error=0.035, **counts)


def make_report(rng: random.Random, metrics: StepMetrics) -> StepReport:
    """The step with four groups; the second is of guess-number, the third has one reward for all."""
    return _report(metrics, list(_rollouts(rng, metrics.step)))


def long_report(*, step: int, tokens: int) -> StepReport:
    """A step of one rollout of one turn with that many tokens, of which everything was kept."""
    ids, texts = tuple(range(1000, 1000 + tokens)), tuple(f" w{place % 97}" for place in range(tokens))
    note = TokenTraining(
        trained=(True,) * tokens, advantages=(0.25,) * tokens, logprobs=(-0.61,) * tokens, versions=(step - 1,) * tokens
    )
    sampled = TokenData(prompt_ids=(1, 2), completion_ids=ids, logprobs=(-0.5,) * tokens)
    turn = Turn(index=0, protocol="chat", model="policy", request={"messages": [{"role": "user", "content": "Go on."}]},
                response={}, tokens=sampled, token_texts=texts)  # fmt: skip
    record = make_record(turns=(turn,), extras={"training": RolloutTokens(turns=(note,)).model_dump(mode="json")})
    row: dict[str, object] = {"environment": LABELS[0], "group": "0", "advantage": 0.25, "completion_tokens": tokens}
    return _report(make_metrics(random.Random(1), step, 2 * step), [(record, row)])


def _report(metrics: StepMetrics, rows: Sequence[tuple[RolloutRecord, dict[str, object]]]) -> StepReport:
    records = [record for record, _ in rows]
    content = write_segment(records)
    blob = make_blob(content)
    placed = tuple(
        TrainingIndexRow.model_validate(
            extra | {name: getattr(slim, name) for name in SHARED}
            | {"index": index, "example": slim.example, "example_hash": slim.example_hash}
        )
        for index, (slim, (_, extra)) in enumerate(zip(index_rows(records, positions(content)), rows, strict=True))
    )  # fmt: skip
    segment = StepSegment(sha256=blob.sha256, size=blob.size, rows=placed)
    return StepReport(metrics=metrics, segments=(segment,))


def _rollouts(rng: random.Random, step: int) -> Iterator[tuple[RolloutRecord, dict[str, object]]]:
    for group in range(4):
        label = LABELS[1] if group == 1 else LABELS[0]
        zero = group == 2
        rewards = [1.0 if zero else round(rng.choice([0.0, 0.25, 0.5, 0.75, 1.0]), 2) for _ in range(GROUP)]
        mean = sum(rewards) / GROUP
        for number, reward in enumerate(rewards):
            failed = group == 3 and number == 2
            advantage = None if failed or zero else round(reward - mean, 4)
            record = _record(
                rng, step, group, number, None if failed else reward, advantage, turns=3 if group == 1 else 1
            )
            sampled = sum(len(turn.tokens.completion_ids) for turn in record.turns if turn.tokens)
            yield record, {
                "environment": label, "group": f"{step}-{group}", "advantage": advantage,
                "admitted": not zero and not failed, "dropped": "zero_signal" if zero else "failed" if failed else "",
                "completion_tokens": sampled, "version_min": max(0, step - 3), "version_max": step - 1,
            }  # fmt: skip


def _record(
    rng: random.Random, step: int, group: int, number: int, reward: float | None, advantage: float | None, *, turns: int
) -> RolloutRecord:
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "Answer in the tags that are asked for."},
        {"role": "user", "content": f"reverse: {''.join(rng.choice('abcdefgh') for _ in range(4))}"},
    ]
    made, views, prompt_ids = [], [], [1, 5, 9, *range(20, 44)]
    for index in range(turns):
        texts = _texts(rng)
        ids = tuple(rng.randrange(10, 900) for _ in texts)
        sampler = tuple(round(-abs(rng.gauss(0, 0.7)), 4) for _ in texts)
        tokens = TokenData(prompt_ids=tuple(prompt_ids), completion_ids=ids, logprobs=sampler)
        answer: dict[str, object] = {"role": "assistant", "content": "".join(texts)}
        made.append(
            Turn(index=index, protocol="chat", model="policy", request={"messages": list(messages)},
                 response={"choices": [{"message": answer}]}, finish_reason="length" if number == 5 else "stop",
                 tokens=tokens, token_texts=tuple(texts),
                 usage=Usage(prompt_tokens=len(prompt_ids), completion_tokens=len(ids)),
                 policy_version=step - 1, latency_s=0.4,
                 reward=0.5 * index if turns > 1 and reward is not None else None)
        )  # fmt: skip
        versions = tuple(max(0, step - 1 - (2 if place < len(ids) // 3 else 0)) for place in range(len(ids)))
        trained = advantage is not None
        views.append(
            TokenTraining(trained=(trained,) * len(ids), versions=versions,
                          advantages=(advantage,) * len(ids) if advantage is not None else (),
                          logprobs=tuple(min(0.0, value + rng.gauss(0, 0.25)) for value in sampler) if trained else ())
        )  # fmt: skip
        messages += [answer, {"role": "user", "content": "<script>alert('told')</script> Too low."}]
        prompt_ids += [*ids, *([77] if index else [76, 78])]
        if index == 1:
            prompt_ids = prompt_ids[3:]
    failure = RolloutFailure(kind=FailureKind.ENVIRONMENT, type="KeyError", message="'answer'", traceback="Traceback …")
    outcome = Outcome.FAILED if reward is None else Outcome.TRUNCATED if number == 5 else Outcome.OK
    return RolloutRecord(
        example=10 * step + group, rollout=number, example_hash=f"{10 * step + group:064x}", outcome=outcome,
        reward=reward, metrics={} if reward is None else {"exact_match": float(reward == 1), "letters": reward},
        failure=failure if reward is None else None, task={"question": "reverse: abcd", "answer": "dcba"},
        prompt=messages[:2], completion=messages[2:-1], turns=tuple(made), timing=Timing(total_s=1.3),
        usage=Usage(prompt_tokens=60, completion_tokens=40),
        extras={"training": RolloutTokens(turns=tuple(views)).model_dump(mode="json")},
    )  # fmt: skip


def _texts(rng: random.Random) -> list[str]:
    words = ["The", " letters", " in", " reverse", " order", ":", "\n", "  -", " d", "c", "b", "a", "\n\n"]
    words += ["<answer>", "dcba", "</answer>", "\t#", " done", "."]
    return [*words[: rng.randrange(14, len(words))], "<|im_end|>"]


def _log(training: TrainingRun) -> None:
    run = run_of(training)
    append_log(run=run, offset=0, text=LOG)


def _finish(training: TrainingRun) -> None:
    report_adapter(training=training, report=adapter_report(40, final=True, reward_mean=0.81), guard=_guard(training))
    now = timezone.now()
    Run.objects.filter(pk=run_of(training).pk).update(state="succeeded", finished_at=now)
    TrainingRun.objects.filter(pk=training.pk).update(state="succeeded", finished_at=now)


def _measure(user: User, adapter: str) -> None:
    """The adapter and its base on reverse-text."""
    for model, rewards in ((adapter, (1.0, 1.0, 0.5)), (f"{user.username}/tiny", (0.0, 0.5, 0.0))):
        evaluation = create_hosted(user, name="reverse-text")
        start_evaluation(evaluation)
        store_evaluation(evaluation, make_records(rewards, rewards))
        succeed(evaluation, model_name=model)
