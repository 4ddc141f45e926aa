"""Rows as text: every table and every sort of column, and whatever a column may hold."""

from __future__ import annotations

import io
import math
from datetime import UTC, datetime

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from hub.backups.errors import Damaged
from hub.backups.rows import sqlite
from hub.backups.rows.frames import FrameReader, Header, write_frames
from hub.backups.rows.schema import RECORD
from hub.backups.rows.tables import LEFT_OUT, Column, Table, tables_of

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TABLE = Table(name="t", columns=(Column(name="a", kind="text"),))


@pytest.mark.django_db
def test_every_table_of_the_database_is_backed_up() -> None:
    there = set(connection.introspection.table_names()) - LEFT_OUT - {RECORD}
    assert {table.name for table in tables_of()} == there


@pytest.mark.django_db
def test_every_column_of_every_table_is_backed_up() -> None:
    with connection.cursor() as cursor:
        for table in tables_of():
            there = connection.introspection.get_table_description(cursor, table.name)
            assert {column.name for column in there} == {column.name for column in table.columns}, table.name


@given(TEXT)
def test_any_text_survives_and_stays_one_field_of_one_line(text: str) -> None:
    written = sqlite._WRITERS["text"](text)
    assert not set(written) & set("\t\n\r")
    assert written != "\\N"
    assert sqlite._READERS["text"](written) == text


@pytest.mark.django_db
@given(TEXT)
def test_postgres_reads_the_same_text(text: str) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("Postgres' own rules")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE IF NOT EXISTS said (a text)")
        cursor.execute("TRUNCATE said")
        with cursor.copy("COPY said FROM STDIN") as copy:
            copy.write(sqlite._WRITERS["text"](text).encode() + b"\n")
        with cursor.copy("COPY said TO STDOUT") as copy:
            assert sqlite._READERS["text"](b"".join(map(bytes, copy)).decode()[:-1]) == text
        cursor.execute("SELECT a FROM said")
        assert cursor.fetchone() == (text,)


@given(st.floats())
def test_any_number_survives(number: float) -> None:
    read = sqlite._READERS["float"](sqlite._WRITERS["float"](number))
    assert read == number or (math.isnan(read) and math.isnan(number))


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)))
def test_any_time_survives_also_without_the_zeros_that_postgres_leaves_out(moment: datetime) -> None:
    text = str(moment)
    assert sqlite._READERS["timestamp"](sqlite._WRITERS["timestamp"](text)) == text
    shorter = text.rstrip("0") if "." in text else text
    assert sqlite._READERS["timestamp"](shorter + "+00") == text


def test_a_stream_without_its_end_or_with_rows_missing_is_damaged() -> None:
    header = Header(backup="b", created_at=datetime.now(UTC), release="1", migrations=())
    frames = list(write_frames(header, [(TABLE, iter([b"1\n", b"2\n"]))]))
    whole = FrameReader(io.BytesIO(b"".join(frames)), "p")
    assert [piece.lines for piece in whole.pieces()] == [b"", b"1\n", b"2\n"]
    for spoilt in (frames[:-1], frames[:3] + frames[4:], [frames[0]], [b"".join(frames)[:-3]]):
        with pytest.raises(Damaged):
            list(FrameReader(io.BytesIO(b"".join(spoilt)), "p").pieces())
