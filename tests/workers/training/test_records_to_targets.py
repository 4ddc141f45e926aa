from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, TokenData, Turn

from workers.training.admission.candidate import Candidate
from workers.training.admission.queue import AdmissionOptions, AdmissionQueue
from workers.training.credit.group import CreditOptions, credit_group
from workers.training.credit.normalisation import normalise
from workers.training.journal.batch import StepBatch
from workers.training.journal.reader import JournalReader
from workers.training.journal.writer import JournalWriter
from workers.training.packing.plan import PackingOptions, pack_step
from workers.training.samples.build import SamplePolicy, build_samples
from workers.training.samples.record import to_rollout


def record(rollout: int, reward: float | None, *turns: tuple[tuple[int, ...], tuple[int, ...]]) -> RolloutRecord:
    made = [
        Turn(
            index=number,
            protocol="tokens",
            model="policy-v000002",
            request={},
            response={},
            tokens=TokenData(prompt_ids=prompt, completion_ids=sampled, logprobs=tuple(-0.5 for _ in sampled)),
            policy_version=2,
        )
        for number, (prompt, sampled) in enumerate(turns)
    ]
    outcome = Outcome.FAILED if reward is None else Outcome.OK
    values = {"example": 0, "example_hash": "0" * 64, "reward": reward, "turns": tuple(made), "outcome": outcome}
    return RolloutRecord(rollout=rollout, **values)


@pytest.mark.parametrize("share_prefixes", [False, True])
def test_records_become_the_targets_of_a_step(tmp_path: Path, share_prefixes: bool) -> None:
    records = [
        record(0, 1.0, ((7, 8), (1, 2)), ((7, 8, 1, 2, 9), (3,))),  # two turns, 9 is the environment's
        record(1, 0.0, ((7, 8), (4,))),
        record(2, None, ((7, 8), (5,))),  # failed: not in the baseline
    ]
    group = tuple(to_rollout(one, group=1, environment="e") for one in records)
    built = build_samples(group, credit_group(group, CreditOptions()), SamplePolicy())
    queue = AdmissionQueue(AdmissionOptions(groups_per_batch=1, max_off_policy=0))
    queue.offer(Candidate(group, built.samples), step=3)
    (taken,) = queue.take(3) or ()
    samples, denominator = normalise([sample for samples in taken.samples for sample in samples], "token")
    with JournalWriter(tmp_path) as writer:
        for step in (1, 2):
            writer.append(StepBatch(step, (), 0.0))
        writer.append(StepBatch(3, samples, denominator))
    read = JournalReader(tmp_path).read(3)
    options = PackingOptions(budget=100, share_prefixes=share_prefixes, min_shared=2)
    ((batch,),) = pack_step(read.samples, options)
    assert read.denominator == 4
    assert batch.labels.tolist() == [1, 2, 3, 4]
    assert batch.advantages.tolist() == [0.5, 0.5, 0.5, -0.5]
    assert np.array_equal(batch.logprobs, np.full(4, -0.5, np.float32))
    assert batch.tokens == (5 if share_prefixes else 7)
    assert batch.ids[batch.index].tolist() == [8, 1, 9, 8]
