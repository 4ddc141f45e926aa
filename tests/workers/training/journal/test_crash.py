from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workers.training.journal.conftest import Compare, Make
from workers.training.journal.encoding import encode
from workers.training.journal.reader import JournalReader
from workers.training.journal.writer import JournalWriter

APPEND_FOREVER = """
import sys
from pathlib import Path
from tests.factories.training import build_sample
from workers.training.journal.batch import StepBatch
from workers.training.journal.writer import JournalWriter
writer = JournalWriter(Path(sys.argv[1]))
while True:
    samples = tuple(build_sample([1] * 500, range(1, 500), index=index) for index in range(20))
    writer.append(StepBatch(writer.next_step, samples, 1.0))
"""


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_batch_whose_manifest_line_was_cut_off_never_was(
    tmp_path: Path, batch_of: Make, assert_same: Compare, cut: int
) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append(batch_of(1))
        whole = (tmp_path / "manifest.jsonl").stat().st_size
        writer.append(batch_of(2))
    manifest = tmp_path / "manifest.jsonl"
    content = manifest.read_bytes()
    manifest.write_bytes(content[: whole + cut] if cut > 0 else content[:cut])
    assert JournalReader(tmp_path).steps() == (1,)
    with JournalWriter(tmp_path) as writer:
        assert not (tmp_path / "step-000002.safetensors").exists()
        writer.append(batch_of(2))
    assert_same(JournalReader(tmp_path).read(2), batch_of(2))


def test_files_in_place_but_not_committed_are_removed(tmp_path: Path, batch_of: Make) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append(batch_of(1))
    (tmp_path / "step-000002.safetensors").write_bytes(encode(batch_of(2)))
    (tmp_path / "step-000003.safetensors.tmp").write_bytes(b"half")
    assert JournalReader(tmp_path).steps() == (1,)
    with JournalWriter(tmp_path) as writer:
        assert writer.next_step == 2
    assert [path.name for path in tmp_path.glob("step-*")] == ["step-000001.safetensors"]


def test_pruning_that_was_cut_off_is_finished_by_the_next_writer(tmp_path: Path, batch_of: Make) -> None:
    with JournalWriter(tmp_path) as writer:
        first = writer.append(batch_of(1))
        content = first.read_bytes()
        writer.append(batch_of(2))
        writer.prune(2)
    first.write_bytes(content)  # as if the crash came before it was deleted
    with JournalWriter(tmp_path) as writer:
        assert not first.exists()
        assert writer.next_step == 3


def test_a_writer_killed_at_any_moment_leaves_a_journal_that_verifies(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", APPEND_FOREVER, str(tmp_path)])
    deadline = time.monotonic() + 60
    while len(JournalReader(tmp_path).steps()) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    steps = JournalReader(tmp_path).steps()
    assert len(steps) >= 5
    assert steps == tuple(range(1, len(steps) + 1))
    for step in steps:
        assert JournalReader(tmp_path).read(step).trained == 20 * 499
    with JournalWriter(tmp_path) as writer:
        assert writer.next_step == len(steps) + 1
