"""What is tried again and again is not written again and again."""

from __future__ import annotations

import logging

from hub.core.seldom import Seldom


def record(created: float) -> logging.LogRecord:
    made = logging.LogRecord("psycopg.pool", logging.WARNING, __file__, 1, "error connecting", (), None)
    made.created = created
    return made


def test_the_first_of_many_is_written_and_one_every_while() -> None:
    seldom = Seldom(10)
    written = [second for second in range(25) if seldom.filter(record(second))]
    assert written == [0, 10, 20]


def test_a_clock_that_was_set_back_silences_nothing() -> None:
    seldom = Seldom(10)
    assert seldom.filter(record(1000))
    assert seldom.filter(record(5))
