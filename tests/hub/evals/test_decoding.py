"""Pushed segments are decoded outside of the hub's memory before anything believes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from envhub.packaging.segments import BadSegment, write_segment
from envhub.protocol.evals.rollouts import RolloutRecord, TokenData, Turn

from hub.evals.services.decoding import Decoder
from tests.factories.evals import make_record

MB = 1024**2


@pytest.fixture
def decoder() -> Iterator[Decoder]:
    made = Decoder(headroom=150 * MB, processes=1)
    yield made
    made.close()


def large() -> RolloutRecord:
    """A few kilobytes in a file, a few hundred megabytes when decoded."""
    many = (7,) * 4_000_000
    tokens = TokenData(prompt_ids=many, completion_ids=many, logprobs=(0.0,) * len(many))
    turn = Turn(index=0, protocol="chat", model="alice/stub", request={}, response={}, tokens=tokens)
    return make_record(turns=(turn,))


def lying(content: bytes) -> bytes:
    """The file with a footer that tells of 8,192 values where there are four million."""
    assert varint(8_000_000) in content
    small = bytes([0x80, 0x80, 0x80, 0x00])  # zero, in as many bytes
    return content.replace(varint(8_000_000), small)


def varint(number: int) -> bytes:
    """Thrift's compact form."""
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def test_an_honest_segment_is_counted(decoder: Decoder, tmp_path: Path) -> None:
    path = tmp_path / "honest"
    path.write_bytes(write_segment([make_record(example=number) for number in range(40)]))
    assert decoder.count_rows(path) == (32, 8)


@pytest.mark.parametrize("lies", [False, True])
def test_what_takes_too_much_memory_is_refused_and_the_next_is_served(
    decoder: Decoder, tmp_path: Path, lies: bool
) -> None:
    bomb, honest = tmp_path / "bomb", tmp_path / "honest"
    content = write_segment([large()])
    bomb.write_bytes(lying(content) if lies else content)
    honest.write_bytes(write_segment([make_record()]))
    with pytest.raises(BadSegment):
        decoder.count_rows(bomb)
    assert decoder.count_rows(honest) == (1,)


def test_what_is_no_segment_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    path = tmp_path / "junk"
    path.write_bytes(b"PAR1" * 10)
    with pytest.raises(BadSegment, match="Parquet"):
        decoder.count_rows(path)
