"""TRL 1.16's loss and gradients of a small step, for every loss type: run with TRL's interpreter by test_trl_parity.

PYTHONPATH=. PYTHON_WITH_TRL -m tests.bench.trl_losses FOLDER
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.bench import train_shapes
from tests.bench.train_shapes import SMALL
from tests.bench.train_trl import rectangles, trainer

# our name -> TRL's settings
LOSSES: dict[str, dict[str, object]] = {
    "dapo": {"loss_type": "dapo", "epsilon_high": 0.28},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "grpo": {"loss_type": "grpo", "epsilon_high": 0.28},
    "dr_grpo": {"loss_type": "dr_grpo", "epsilon_high": 0.28},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon_high": 0.28},
}


def main() -> None:
    """One file of gradients a loss; the loss itself is its tensor `loss`."""
    torch.set_num_threads(1)
    for name, settings in LOSSES.items():
        with tempfile.TemporaryDirectory() as folder:
            made = trainer(train_shapes.model(**SMALL), folder, SMALL["vocab_size"], **settings)
            total = 0.0
            for batch in rectangles(train_shapes.small_rows()):
                loss = made._compute_loss(made.model, batch)
                loss.backward()
                total += float(loss.detach())
            gradients = {key: p.grad for key, p in made.model.named_parameters() if p.grad is not None}
            save_file(gradients | {"loss": torch.tensor(total)}, Path(sys.argv[1]) / f"{name}.safetensors")


if __name__ == "__main__":
    main()
