"""Steps for property tests, and what a micro-batch means, read off it the slow way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import strategies as st

from tests.factories.training import build_sample
from workers.training.packing.microbatch import MicroBatch
from workers.training.samples.sample import Sample

Target = tuple[int, int, tuple[int, ...], int, float, float, float, float]


@st.composite
def steps(draw: st.DrawFn) -> tuple[Sample, ...]:
    """Samples of a few groups whose tokens often agree; some train nothing, some are a single token."""
    prompts = draw(st.lists(st.lists(st.integers(0, 2), max_size=8), min_size=1, max_size=3))
    samples = []
    for place in range(draw(st.integers(0, 10))):
        group = draw(st.integers(0, len(prompts) - 1))
        tokens = [*prompts[group], *draw(st.lists(st.integers(0, 2), max_size=8))]
        train = [at for at in range(1, len(tokens)) if draw(st.booleans())]
        weight, temperature = draw(st.sampled_from([0.5, 1.0])), draw(st.sampled_from([0.5, 2.0]))
        samples.append(
            build_sample(tokens, train, group=group, index=place, weight=weight, inv_temperature=temperature)
        )
    return tuple(samples)


def expected(samples: Iterable[Sample]) -> Counter[Target]:
    """(sample, token, context, label, advantage, logprob, weight, inverse temperature) of each trained token."""
    found: Counter[Target] = Counter()
    for place, one in enumerate(samples):
        for at in one.train.nonzero()[0].tolist():
            context = tuple(one.ids[:at].tolist())
            numbers = (float(one.advantages[at]), float(one.logprobs[at]), one.weight, one.inv_temperature)
            found[(place, at, context, int(one.ids[at]), *numbers)] += 1
    return found


def targets(batch: MicroBatch) -> Counter[Target]:
    """The same of a micro-batch, with the context that a target's hidden state attends to."""
    found: Counter[Target] = Counter()
    for target in range(batch.targets):
        context, positions = attended(batch, int(batch.index[target]))
        assert positions == list(range(len(positions)))
        numbers = [batch.advantages, batch.logprobs, batch.weights, batch.inv_temperature]
        first, second, third, fourth = (float(one[target]) for one in numbers)
        place = int(batch.sample[batch.sequence[target]])
        label = int(batch.labels[target])
        found[(place, int(batch.token[target]), context, label, first, second, third, fourth)] += 1
    return found


def attended(batch: MicroBatch, index: int) -> tuple[tuple[int, ...], list[int]]:
    """Tokens and positions that the hidden state at `index` sees, itself last."""
    segment = next(one for one in range(len(batch.paths)) if batch.bounds[one] <= index < batch.bounds[one + 1])
    seen = [at for start, end in batch.keys(segment) for at in range(start, end) if at <= index]
    return tuple(batch.ids[seen].tolist()), batch.positions[seen].tolist()
