"""One step against TRL 1.16's `_compute_loss`, an adapter against peft, in an environment of their own.

TRL_PYTHON may name an interpreter that has it; otherwise one is made with uv.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.bench.bench_train import make_trl
from tests.bench.train_shapes import LONGEST, SMALL, small_rows
from tests.bench.train_shapes import model as study_model
from tests.bench.train_side import sample
from tests.workers.training.learner.making import model
from tests.workers.training.learner.test_lora import LORA, logits, policy, stir
from tests.workers.training.learner.test_oracle import distance, ours
from workers.training.credit.normalisation import Normalisation, normalise
from workers.training.learner.adapter_files import save_adapter
from workers.training.learner.directory.config import LearnerConfig, LossConfig, LossName

pytestmark = [pytest.mark.torch, pytest.mark.matrix]
ROOT = Path(__file__).parents[4]
KINDS: dict[LossName, Normalisation] = {
    "dapo": "token",
    "cispo": "token",
    "grpo": "sequence",
    "dr_grpo": "constant",
    "gspo": "sequence",
}


PEFT = """
import sys, torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
base, adapter, out = sys.argv[1:]
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), adapter)
save_file({"logits": model(torch.arange(12)[None]).logits.detach().contiguous()}, out)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has TRL and peft."""
    given = os.environ.get("TRL_PYTHON")
    return Path(given) if given else make_trl(tmp_path_factory.mktemp("trl") / "environment")


@pytest.fixture(scope="module")
def trl(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with TRL's losses and gradients."""
    folder = tmp_path_factory.mktemp("trl")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", "tests.bench.trl_losses", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_loss_and_gradients_are_trls(trl: Path, name: LossName) -> None:
    theirs = load_file(trl / f"{name}.safetensors")
    loss = float(theirs.pop("loss"))
    of, denominator = normalise([sample(row, at) for at, row in enumerate(small_rows())], KINDS[name], constant=LONGEST)
    high = 5.0 if name == "cispo" else 0.28
    config = LearnerConfig(mode="full", loss=LossConfig(name=name, clip_low=0.2, clip_high=high))
    got = ours(study_model(**SMALL), of, denominator, config, budget=400)
    assert got[0] == pytest.approx(loss, rel=2e-6, abs=1e-6)
    assert distance(got[1], theirs) < 5e-6


def test_peft_computes_the_same_with_a_saved_adapter(python: Path, tmp_path: Path) -> None:
    model().save_pretrained(tmp_path / "base")
    made = policy()
    stir(made)
    (tmp_path / "adapter").mkdir()
    save_adapter(tmp_path / "adapter", made.adapters, LORA, base=str(tmp_path / "base"))
    paths = [str(tmp_path / name) for name in ("base", "adapter", "logits.safetensors")]
    subprocess.run([str(python), "-c", PEFT, *paths], check=True, capture_output=True)
    torch.testing.assert_close(load_file(paths[2])["logits"], logits(made), rtol=1e-5, atol=1e-5)
