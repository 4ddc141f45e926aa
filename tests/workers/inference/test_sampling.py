"""workers.inference.torch_engine.sampling against numbers worked by hand."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
sampling = pytest.importorskip("workers.inference.torch_engine.sampling")
pytestmark = pytest.mark.torch
Params = sampling.SamplingParams
LOGITS = [math.log(0.5), math.log(0.3), math.log(0.15), math.log(0.05)]


def distribution(**settings: float) -> list[float]:
    logprobs = sampling.processed_logprobs(torch.tensor([LOGITS]), [Params(**settings)])
    return [round(p, 5) for p in logprobs.exp()[0].tolist()]


def test_plain_sampling_keeps_the_models_distribution() -> None:
    assert distribution() == [0.5, 0.3, 0.15, 0.05]


def test_temperature_sharpens() -> None:
    squares = [0.25, 0.09, 0.0225, 0.0025]
    assert distribution(temperature=0.5) == [round(x / sum(squares), 5) for x in squares]


def test_top_k_keeps_k_tokens() -> None:
    assert distribution(top_k=2) == [0.625, 0.375, 0.0, 0.0]


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    assert distribution(top_p=0.6) == [0.625, 0.375, 0.0, 0.0]


def test_min_p_is_relative_to_the_best_token() -> None:
    assert distribution(min_p=0.4) == [0.625, 0.375, 0.0, 0.0]


def test_a_seeded_row_does_not_depend_on_its_neighbours() -> None:
    def draw(rows: int) -> int:
        logits = torch.tensor([LOGITS] * rows)
        generators = [torch.Generator().manual_seed(7), *[None] * (rows - 1)]
        return int(sampling.sample(logits, [Params()] * rows, generators).tokens[0])

    assert draw(1) == draw(5)


def test_greedy_takes_the_best_and_reports_its_plain_logprob() -> None:
    drawn = sampling.sample(torch.tensor([LOGITS]), [Params(temperature=0.0)], [None])
    assert drawn.tokens == [0]
    assert drawn.logprobs[0] == pytest.approx(math.log(0.5), abs=1e-5)


def test_samples_follow_the_distribution() -> None:
    torch.manual_seed(0)
    drawn = sampling.sample(torch.tensor([LOGITS] * 4000), [Params()] * 4000, [None] * 4000)
    shares = [drawn.tokens.count(token) / 4000 for token in range(4)]
    assert shares == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.03)
