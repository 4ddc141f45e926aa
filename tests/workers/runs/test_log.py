"""The log keeps order, hides secrets, has an end, and survives repeated sending."""

from __future__ import annotations

import pytest
from envhub import errors
from envhub.protocol.runs import LogAppend

from workers.runs.log import PIECE, LogStream


class Receiver:
    """Takes pieces; `broken` loses the answer of every call."""

    def __init__(self) -> None:
        self.pieces: list[LogAppend] = []
        self.broken = False

    async def append_log(self, piece: LogAppend) -> None:
        self.pieces.append(piece)
        if self.broken:
            raise errors.ConnectionFailed("lost")

    @property
    def text(self) -> str:
        out = ""
        for piece in self.pieces:
            out = out[: piece.offset] + piece.text
        return out


async def test_long_text_goes_in_bounded_pieces() -> None:
    receiver = Receiver()
    stream = LogStream(receiver, limit=10**6)  # type: ignore[arg-type]
    stream.write("x" * (2 * PIECE + 5))
    await stream.flush()
    assert [len(piece.text) for piece in receiver.pieces] == [PIECE, PIECE, 5]


async def test_a_piece_whose_answer_was_lost_is_sent_again_unchanged() -> None:
    receiver = Receiver()
    receiver.broken = True
    stream = LogStream(receiver, limit=1000)  # type: ignore[arg-type]
    stream.write("one ")
    with pytest.raises(errors.ConnectionFailed):
        await stream.flush()
    stream.write("two")
    receiver.broken = False
    await stream.flush()
    assert receiver.pieces[0] == receiver.pieces[1]
    assert receiver.text == "one two"


async def test_a_log_that_the_hub_has_lost_part_of_goes_on() -> None:
    class Forgetful(Receiver):
        async def append_log(self, piece: LogAppend) -> None:
            if piece.offset:
                raise errors.Conflict("gap", code="log_gap", fields={"offset": "0"})
            await super().append_log(piece)

    receiver = Forgetful()
    stream = LogStream(receiver, limit=1000)  # type: ignore[arg-type]
    for text in ("one ", "two"):
        stream.write(text)
        await stream.flush()
    assert [piece.text for piece in receiver.pieces] == ["one ", "two"]


async def test_secrets_are_masked_the_longest_first() -> None:
    receiver = Receiver()
    stream = LogStream(receiver, limit=1000)  # type: ignore[arg-type]
    stream.mask(["token", "token-and-more", "x"])
    stream.write("token-and-more, token, x")
    await stream.flush()
    assert receiver.text == "***, ***, x"


async def test_a_secret_of_several_lines_is_masked_where_each_line_is_logged_alone() -> None:
    receiver = Receiver()
    stream = LogStream(receiver, limit=1000)  # type: ignore[arg-type]
    key = "-----BEGIN KEY-----\r\nMIIEvQIBADANBg\n{}\n  c2VjcmV0LXRhaWw=\n"
    stream.mask([key])
    for line in key.splitlines():
        stream.write(f"> {line}\n")
    await stream.flush()
    assert receiver.text == "> ***\n> ***\n> {}\n>   ***\n"


async def test_too_much_output_ends_with_one_notice() -> None:
    receiver = Receiver()
    stream = LogStream(receiver, limit=100)  # type: ignore[arg-type]
    for _ in range(50):
        stream.write("0123456789")
    await stream.flush()
    assert receiver.text.startswith("0123456789" * 10)
    assert receiver.text.count("log truncated") == 1
    assert len(receiver.text) < 200
