from __future__ import annotations

from workers.training.admission.error_rate import ErrorRate


def test_more_than_half_over_five_batches_is_too_high() -> None:
    rate = ErrorRate()
    for _ in range(4):
        rate.note_batch(8, 8)
    assert not rate.too_high  # four batches are not enough
    rate.note_batch(0, 8)
    assert rate.too_high
    assert rate.rate == 0.8


def test_exactly_half_is_not() -> None:
    rate = ErrorRate()
    for _ in range(5):
        rate.note_batch(4, 8)
    assert not rate.too_high


def test_old_batches_are_forgotten() -> None:
    rate = ErrorRate(window=2)
    for failed in (8, 8, 0, 0):
        rate.note_batch(failed, 8)
    assert rate.rate == 0.0


def test_batches_without_the_environment_do_not_count() -> None:
    rate = ErrorRate(window=1)
    rate.note_batch(0, 0)
    assert not rate.too_high
    assert rate.rate == 0.0
