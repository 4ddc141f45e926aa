"""The event file, read back by hand as TensorBoard reads it."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest
from envhub.packaging.tensorboard import crc32c, event_file, masked_crc, scalars
from envhub.protocol.training.metrics import EnvironmentStep, EvaluationPoint, StepMetrics

AT = datetime(2026, 1, 2, tzinfo=UTC)


def records(data: bytes) -> list[bytes]:
    """The payloads; both checksums of each are checked."""
    found = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12]) == (masked_crc(data[:8]),)
        payload, data = data[12 : 12 + length], data[12 + length :]
        assert struct.unpack("<I", data[:4]) == (masked_crc(payload),)
        found.append(payload)
        data = data[4:]
    return found


def test_the_checksum_is_that_of_rfc_3720() -> None:
    assert (crc32c(b"123456789"), crc32c(bytes(32))) == (0xE3069283, 0x8A9136AA)


def test_a_file_has_its_version_and_a_record_a_step() -> None:
    steps = [StepMetrics(step=step, at=AT, reward_mean=0.5) for step in (1, 300)]
    version, first, last = records(b"".join(event_file(steps, started=AT)))
    assert version.endswith(b"brain.Event:2")
    assert first.startswith(b"\x09" + struct.pack("<d", AT.timestamp()) + b"\x10\x01")
    assert last[9:12] == b"\x10\xac\x02"
    value = b"\x0a\x0breward_mean\x15" + struct.pack("<f", 0.5)
    assert b"\x0a" + bytes([len(value)]) + value in first


def test_every_number_has_a_tag() -> None:
    step = StepMetrics(
        step=1,
        losses={"loss": 2.0},
        environments={"sort": EnvironmentStep(reward_mean=0.25)},
        evaluations=(EvaluationPoint(label="val", step=1, reward_mean=0.75),),
    )
    found = scalars(step)
    assert (found["losses/loss"], found["environments/sort/reward_mean"], found["eval/val"]) == (2.0, 0.25, 0.75)
    assert "kl" not in found


@pytest.mark.parametrize("huge", [1e300, -1e300])
def test_a_number_beyond_a_float_is_the_largest_one(huge: float) -> None:
    assert records(b"".join(event_file([StepMetrics(step=1, kl=huge)], started=AT)))
