"""Stores rollouts that Prime's clients send in batches, in an evaluation that is being pushed.

A sample is a line of `results.jsonl`; in the current generation it contains the whole episode, including turns and
tokens. The clients' numbers of rollouts are not reliable, so each rollout gets the next number of its example here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Max, Q
from envhub.packaging.index_rows import index_rows
from envhub.packaging.saved import results, traces
from envhub.packaging.segments import fitting_segment, positions
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.evaluations import INLINE_BYTES, SegmentRequest
from envhub.protocol.evals.rollouts import RolloutRecord
from pydantic import ValidationError

from hub.accounts.models import Role, User
from hub.accounts.queries import require_role
from hub.compat.models import SampleBatch
from hub.core.errors import Conflict, Invalid
from hub.evals.models import Evaluation, ExampleScore, RolloutIndex
from hub.evals.services import add_segment
from hub.storage.services import store_bytes

MOST_SAMPLES = 10_000  # per request, whose bytes are limited separately


def add_samples(*, user: User, evaluation: Evaluation, samples: Sequence[Any]) -> int:
    """Store a batch and return how many samples were new: none, if the same batch was stored before.

    Raises NotAllowed, Invalid (not a sample), Conflict (hosted, or it has ended).
    """
    require_role(user, evaluation.owner, Role.MEMBER)
    if evaluation.is_hosted:
        raise Conflict("this evaluation runs on the hub: nothing can be added to it", code="hosted")
    if len(samples) > MOST_SAMPLES:
        raise Invalid(f"a request may have {MOST_SAMPLES} samples", fields={"samples": str(len(samples))})
    if not samples:
        return 0
    records, digest = _records(samples), results.canonical_hash(samples)
    while not _is_stored(evaluation, digest):
        placed = _placed(evaluation, records)
        segments = list(_stored(evaluation, placed))  # before anything is locked, as it may take minutes
        with transaction.atomic():
            row = Evaluation.objects.select_for_update(of=("self",)).get(pk=evaluation.pk)
            if _is_stored(row, digest) or list(map(_place, _placed(row, records))) != list(map(_place, placed)):
                continue  # another batch came first: this one, or one that has taken these numbers
            SampleBatch.objects.create(evaluation=row, digest=digest)
            _expect(row, placed)
            for segment in segments:
                add_segment(evaluation=row, request=segment, trusted=True)
        return len(samples)
    return 0


def _is_stored(evaluation: Evaluation, digest: str) -> bool:
    """Return whether a batch is there. Raises Conflict if it is not and the evaluation has ended."""
    if SampleBatch.objects.filter(evaluation=evaluation, digest=digest).exists():
        return True
    if evaluation.is_final:
        hint = "without --eval a new one is made"
        raise Conflict("this evaluation has ended: nothing can be added to it", code="evaluation_ended", hint=hint)
    return False


def _place(record: RolloutRecord) -> tuple[int, int, str]:
    return record.example, record.rollout, record.example_hash


def _records(samples: Sequence[Any]) -> list[RolloutRecord]:
    """Convert each sample to a rollout, in order. Raises Invalid, naming the one that cannot be read."""
    found: list[RolloutRecord] = []
    for position, sample in enumerate(samples):
        try:
            found.append(_record(sample))
        except (AttributeError, TypeError, ValueError, LookupError, OverflowError) as error:
            raise Invalid(
                f"sample {position + 1} is not as verifiers writes it: {error}", code="broken_sample"
            ) from error
    return found


def _record(sample: JsonObject) -> RolloutRecord:
    """Convert a sample; if its example has no number, use -1.

    Raises various errors for anything that is not a sample.
    """
    info = sample.get("info")
    episode = info.get("native_wrapper") if isinstance(info, dict) else None
    numbered = isinstance(sample.get("example_id"), int)
    if isinstance(episode, dict):
        record = next(traces.to_records([episode]))
        numbered = numbered or isinstance(record.task.get("idx"), int)
        example = sample["example_id"] if isinstance(sample.get("example_id"), int) else record.example
    else:
        record = next(results.to_records([sample]))
        example = record.example
    if numbered and not 0 <= example < 2**31:
        raise ValueError(f"the number of its example is {example}")
    return record.model_copy(update={"example": example if numbered else -1})


def _placed(evaluation: Evaluation, records: Sequence[RolloutRecord]) -> list[RolloutRecord]:
    """Number the rollouts. An example without a number is identified by its content.

    The first rollout of an example decides its hash, because environments change prompts while they run.
    """
    numbers = {record.example for record in records if record.example >= 0}
    hashes = {record.example_hash for record in records if record.example < 0}
    scores = ExampleScore.objects.filter(evaluation=evaluation)
    met = scores.filter(Q(example__in=numbers) | Q(example_hash__in=hashes))
    known = dict(met.values_list("example", "example_hash"))
    by_hash = {digest: example for example, digest in known.items()}
    last = scores.aggregate(last=Max("example"))["last"] if hashes else None
    following = max([-1 if last is None else last, *numbers]) + 1
    examples: list[int] = []
    for record in records:
        example = record.example if record.example >= 0 else by_hash.get(record.example_hash, following)
        following = max(following, example + 1)
        known.setdefault(example, record.example_hash)
        by_hash.setdefault(record.example_hash, example)
        examples.append(example)
    rows = RolloutIndex.objects.filter(evaluation=evaluation, example__in=set(examples))
    ends = rows.order_by().values("example").annotate(end=Max("rollout") + 1).values_list("example", "end")
    count = Counter(dict(ends))
    placed = []
    for example, record in zip(examples, records, strict=True):
        changed = {"example": example, "rollout": count[example], "example_hash": known[example]}
        placed.append(record.model_copy(update=changed))
        count[example] += 1
    return placed


def _expect(evaluation: Evaluation, records: Sequence[RolloutRecord]) -> None:
    """Set the planned number to what has arrived, because nobody announces how many samples there will be."""
    most = max(record.rollout for record in records) + 1
    each = max(int(evaluation.config["rollouts_per_example"]), most)
    evaluation.config = {**evaluation.config, "rollouts_per_example": each}
    evaluation.planned += len(records)
    evaluation.save(update_fields=["config", "planned"])


def _stored(evaluation: Evaluation, records: Sequence[RolloutRecord]) -> Iterator[SegmentRequest]:
    """Store the rollouts as segments, which are yet to be added. Raises Invalid."""
    while records:
        these, content = fitting_segment(records)
        records = records[len(these) :]
        small = len(content) <= INLINE_BYTES
        if not small:
            store_bytes(content, holder=evaluation.owner_id)
        try:
            rows = index_rows(these, positions(content))
        except ValidationError as error:
            raise Invalid(f"a sample holds what cannot be stored: {error}"[:500], code="broken_sample") from error
        yield SegmentRequest(
            sha256=hashlib.sha256(content).hexdigest(),
            size=len(content),
            content=content if small else None,
            rows=rows,
        )
