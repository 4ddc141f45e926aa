"""Two processes over gloo, weights split by FSDP2: the same gradients, weights and files as one process.

And four, as two hosts of two: weights split over each host's, the same on both.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.workers.training.learner.sharded import learner, steps
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.world import World

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes made."""
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", "127.0.0.1:0", "-m", "tests.workers.training.learner.sharded", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two launchers of two processes made; the second's have a folder without any file of the first's."""
    folder = tmp_path_factory.mktemp("hosts")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--local-addr", "127.0.0.1"]
    command += ["-m", "tests.workers.training.learner.sharded", str(folder), "hybrid"]
    launched = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=300)[1] for process in launched]
    assert [process.returncode for process in launched] == [0, 0], said[0][-3000:]
    return folder


@pytest.mark.matrix  # torch five times
@pytest.mark.parametrize("mode", ["full", "lora"])
def test_two_hosts_of_two_processes_make_the_steps_of_one(hosts: Path, tmp_path: Path, mode: str) -> None:
    assert_same_steps(hosts, tmp_path, mode)
    assert not list((hosts / "elsewhere" / mode).glob("checkpoints/*"))


@pytest.mark.parametrize("mode", ["full", "lora"])
def test_two_processes_make_the_steps_of_one(two: Path, tmp_path: Path, mode: str) -> None:
    assert_same_steps(two, tmp_path, mode)


def assert_same_steps(made: Path, tmp_path: Path, mode: str) -> None:
    """Norms, checkpoints and published files are those of one process."""
    one = RunDir(tmp_path)
    norms = steps(learner(mode, World()), one)
    both = RunDir(made / mode)
    assert [float(norm) for norm in (both.root / "norms").read_text().split()] == pytest.approx(norms, rel=1e-6)
    for name in ("masters.safetensors", "moments.safetensors"):
        ours, theirs = (load_file(run.checkpoint(2) / name) for run in (one, both))
        assert ours.keys() == theirs.keys()
        for key, tensor in ours.items():
            torch.testing.assert_close(theirs[key], tensor, rtol=1e-5, atol=1e-7)
    published = [sorted(path.name for path in run.version(2).iterdir()) for run in (one, both)]
    assert published[0] == published[1]


def test_every_process_knows_the_log_probabilities_of_the_whole_step(two: Path, tmp_path: Path) -> None:
    steps(learner("full", World()), RunDir(tmp_path))
    for rank in (0, 1):
        both = np.load(two / "full" / f"logprobs-{rank}.npy")
        np.testing.assert_allclose(both, np.load(tmp_path / "logprobs-0.npy"), atol=1e-5)


def test_split_fp32_weights_may_be_computed_with_in_bf16(two: Path, tmp_path: Path) -> None:
    norms = steps(learner("full", World()), RunDir(tmp_path))
    assert [float(norm) for norm in (two / "full bf16" / "norms").read_text().split()] == pytest.approx(norms, rel=5e-2)
    masters = load_file(RunDir(two / "full bf16").checkpoint(2) / "masters.safetensors")
    assert {tensor.dtype for tensor in masters.values()} == {torch.float32}


def test_no_process_keeps_whole_gradients_from_one_micro_batch_to_the_next(two: Path) -> None:
    splits = (two / "full" / "splits").read_text().splitlines()
    assert len(splits) == 5  # two steps of two micro-batches, one of one
    assert set(splits) == {"22 of 22"}  # two layers' weights
