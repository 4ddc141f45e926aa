from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.training.journal.conftest import Compare, Make
from workers.training.journal.errors import CorruptBatch, CorruptManifest, JournalBusy, MissingBatch, WrongStep
from workers.training.journal.reader import JournalReader
from workers.training.journal.writer import JournalWriter


def filled(directory: Path, batch_of: Make, steps: int = 3) -> Path:
    with JournalWriter(directory) as writer:
        for step in range(1, steps + 1):
            writer.append(batch_of(step))
    return directory


def test_what_was_appended_can_be_read(tmp_path: Path, batch_of: Make, assert_same: Compare) -> None:
    reader = JournalReader(filled(tmp_path, batch_of))
    assert reader.steps() == (1, 2, 3)
    assert_same(reader.read(2), batch_of(2))


def test_a_reader_sees_what_is_appended_later(tmp_path: Path, batch_of: Make) -> None:
    reader = JournalReader(tmp_path)
    assert reader.steps() == ()
    filled(tmp_path, batch_of, steps=1)
    assert reader.steps() == (1,)


def test_entries_say_what_a_batch_holds(tmp_path: Path, batch_of: Make) -> None:
    (entry,) = JournalReader(filled(tmp_path, batch_of, steps=1)).entries()
    assert (entry.file, entry.samples, entry.tokens, entry.trained) == ("step-000001.safetensors", 3, 6, 3)
    assert entry.bytes == (tmp_path / entry.file).stat().st_size


def test_an_opened_journal_goes_on_where_it_ended(tmp_path: Path, batch_of: Make) -> None:
    with JournalWriter(filled(tmp_path, batch_of)) as writer:
        assert writer.next_step == 4
        writer.append(batch_of(4))
    assert JournalReader(tmp_path).steps() == (1, 2, 3, 4)


@pytest.mark.parametrize("step", [1, 3, 5])
def test_steps_are_consecutive(tmp_path: Path, batch_of: Make, step: int) -> None:
    with JournalWriter(filled(tmp_path, batch_of)) as writer, pytest.raises(WrongStep, match="the next is 4"):
        writer.append(batch_of(step))


def test_there_is_one_writer(tmp_path: Path) -> None:
    with JournalWriter(tmp_path), pytest.raises(JournalBusy):
        JournalWriter(tmp_path)
    JournalWriter(tmp_path).__exit__(None, None, None)


def test_a_batch_not_written_yet_is_missing(tmp_path: Path, batch_of: Make) -> None:
    with pytest.raises(MissingBatch, match=r"step 4 .*not written yet"):
        JournalReader(filled(tmp_path, batch_of)).read(4)


def test_a_batch_whose_file_is_gone_is_named(tmp_path: Path, batch_of: Make) -> None:
    (filled(tmp_path, batch_of) / "step-000002.safetensors").unlink()
    with pytest.raises(MissingBatch, match=r"step-000002.safetensors is gone"):
        JournalReader(tmp_path).read(2)


def test_one_changed_bit_is_found_and_the_file_named(tmp_path: Path, batch_of: Make) -> None:
    path = filled(tmp_path, batch_of) / "step-000002.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptBatch, match=r"step-000002.safetensors is not what was written"):
        JournalReader(tmp_path).read(2)
    JournalReader(tmp_path).read(3)


def test_a_file_cut_short_is_found(tmp_path: Path, batch_of: Make) -> None:
    path = filled(tmp_path, batch_of) / "step-000001.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CorruptBatch, match="has 100 bytes of"):
        JournalReader(tmp_path).read(1)


def test_a_damaged_manifest_is_found(tmp_path: Path, batch_of: Make) -> None:
    manifest = filled(tmp_path, batch_of) / "manifest.jsonl"
    manifest.write_bytes(b"#" + manifest.read_bytes())
    with pytest.raises(CorruptManifest, match="line 1"):
        JournalReader(tmp_path).steps()


def test_batches_behind_a_checkpoint_are_deleted(tmp_path: Path, batch_of: Make) -> None:
    with JournalWriter(filled(tmp_path, batch_of)) as writer:
        assert writer.prune(3) == (1, 2)
        assert writer.prune(3) == ()
        writer.append(batch_of(4))
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-000003.safetensors",
        "step-000004.safetensors",
    ]
    assert JournalReader(tmp_path).steps() == (3, 4)
    with pytest.raises(MissingBatch, match="steps before 3 needless"):
        JournalReader(tmp_path).read(1)


def test_a_journal_pruned_wholly_keeps_its_count(tmp_path: Path, batch_of: Make) -> None:
    with JournalWriter(filled(tmp_path, batch_of)) as writer:
        writer.prune(100)
    with JournalWriter(tmp_path) as writer:
        assert writer.next_step == 4
        writer.append(batch_of(4))
    assert JournalReader(tmp_path).steps() == (4,)
