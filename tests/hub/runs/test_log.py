"""The run's log: pieces that may be sent again, bounded."""

from __future__ import annotations

import pytest

from hub.core.errors import Conflict
from hub.runs.models import Run
from hub.runs.queries import LOG_PAGE, read_log
from hub.runs.services import append_log, logs
from tests.factories.runs import hold_run, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    run = make_run()
    hold_run(run)
    return run


def test_pieces_join_to_the_text_that_was_sent(run: Run) -> None:
    append_log(run=run, offset=0, text="one ")
    assert append_log(run=run, offset=4, text="zwei 中") == 10
    assert read_log(run.pk, 1, 0) == ("one zwei 中", 10, True)


def test_a_piece_that_is_sent_again_changes_nothing(run: Run) -> None:
    for _ in range(2):
        assert append_log(run=run, offset=0, text="once") == 4
    assert read_log(run.pk, 1, 0).text == "once"


def test_a_piece_that_overlaps_adds_what_is_new(run: Run) -> None:
    append_log(run=run, offset=0, text="abc")
    append_log(run=run, offset=1, text="bcdef")
    assert read_log(run.pk, 1, 0).text == "abcdef"


def test_a_gap_is_refused_with_the_offset_to_go_back_to(run: Run) -> None:
    append_log(run=run, offset=0, text="abc")
    with pytest.raises(Conflict) as caught:
        append_log(run=run, offset=9, text="x")
    assert (caught.value.code, caught.value.fields) == ("log_gap", {"offset": "3"})


def test_reading_goes_on_where_it_stopped(run: Run) -> None:
    append_log(run=run, offset=0, text="abc")
    append_log(run=run, offset=3, text="def")
    assert read_log(run.pk, 1, 4) == ("ef", 6, True)
    assert read_log(run.pk, 1, 6) == ("", 6, True)


def test_a_long_log_is_read_page_by_page(run: Run) -> None:
    for piece in range(3):
        append_log(run=run, offset=piece * LOG_PAGE, text="x" * LOG_PAGE)
    first = read_log(run.pk, 1, 0)
    assert (len(first.text), first.next_offset, first.at_end) == (LOG_PAGE, LOG_PAGE, False)
    assert read_log(run.pk, 1, 2 * LOG_PAGE).at_end


def test_a_log_beyond_the_bound_ends_with_a_note(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_LOG", 10)
    end = append_log(run=run, offset=0, text="0123456789abc")
    append_log(run=run, offset=end, text="more")
    append_log(run=run, offset=end + 999, text="and more")
    assert read_log(run.pk, 1, 0).text == "0123456789" + logs.TRUNCATED


def test_what_no_database_stores_is_replaced_at_the_same_length(run: Run) -> None:
    append_log(run=run, offset=0, text="a\x00b\ud800c")
    assert read_log(run.pk, 1, 0).text == "a\ufffdb\ufffdc"


def test_each_attempt_has_its_own_log(run: Run) -> None:
    append_log(run=run, offset=0, text="first")
    hold_run(run)
    append_log(run=run, offset=0, text="second")
    assert (read_log(run.pk, 1, 0).text, read_log(run.pk, 2, 0).text) == ("first", "second")
