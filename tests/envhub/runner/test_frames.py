"""Frames: length first, at most 16 MiB, larger rollouts by file."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path

import pytest
from envhub.runner import frames


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME", 200)


def test_a_frame_is_its_length_and_its_json() -> None:
    data = frames.encode({"type": "group", "id": "é"})
    (length,) = struct.unpack(">I", data[:4])
    assert (length, json.loads(data[4:])) == (len(data) - 4, {"type": "group", "id": "é"})


@pytest.mark.usefixtures("small")
def test_a_rollout_that_is_too_large_goes_by_file(tmp_path: Path) -> None:
    frame = {"type": "rollout", "id": "g", "record": {"completion": "x" * 500}, "response_ids": []}
    sent = json.loads(frames.fit(frame, str(tmp_path))[4:])
    assert (sent["type"], sent["id"]) == ("rollout_file", "g")
    assert json.loads(Path(sent["path"]).read_text()) == frame


@pytest.mark.usefixtures("small")
def test_a_description_that_is_too_large_loses_its_rows(tmp_path: Path) -> None:
    frame = {"type": "described", "splits": {"eval": {"size": 3, "rows": ["x" * 500]}}}
    sent = json.loads(frames.fit(frame, str(tmp_path))[4:])
    assert sent["splits"] == {"eval": {"size": 3, "rows": []}}


def test_the_first_command_is_read_in_pieces_without_a_loop() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for piece in (frames.encode({"type": "load"})[:3], frames.encode({"type": "load"})[3:]):
            theirs.sendall(piece)
        channel = frames.Channel(ours)
        assert channel.receive_blocking() == {"type": "load"}
        theirs.shutdown(socket.SHUT_WR)
        assert channel.receive_blocking() is None
