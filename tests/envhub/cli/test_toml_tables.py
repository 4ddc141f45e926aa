"""sdk/toml.md names every key of both files with its default, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from envhub.cli.evaluations.files import FIELDS
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.training.config import (
    AdaptersTable,
    BatchFilter,
    BufferTable,
    CheckpointsTable,
    EvalTable,
    TrainingConfig,
    ValTable,
)
from envhub.protocol.training.environment import (
    EnvironmentTable,
    EvalEnvironment,
    TemperatureSchedule,
    TrainingEnvironment,
    TrainingSampling,
)
from envhub.protocol.training.trainer import ExportersTable, MlflowTable, TrainerTable, WandbTable
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

SECTIONS: dict[str, type[BaseModel]] = {
    "At the top": TrainingConfig,
    "`[sampling]`": TrainingSampling,
    "`[sampling.temp_scheduler]`": TemperatureSchedule,
    "`[[env]]`": TrainingEnvironment,
    "`[[eval.env]]`": EvalEnvironment,
    "`[eval]`": EvalTable,
    "`[val]`": ValTable,
    "`[[pre_batch_filters]]`, `[[post_batch_filters]]`": BatchFilter,
    "`[buffer]`": BufferTable,
    "`[checkpoints]`": CheckpointsTable,
    "`[adapters]`": AdaptersTable,
    "`[trainer]`": TrainerTable,
    "`[exporters]`": ExportersTable,
    "`[wandb]`, `[exporters.wandb]`": WandbTable,
    "`[exporters.mlflow]`": MlflowTable,
}
TABLES = set(re.findall(r"\w+", " ".join(SECTIONS)))  # these have a section instead of a row
TEXT = (Path(__file__).parents[3] / "sdk/toml.md").read_text()


def written(heading: str) -> dict[str, str]:
    """Key -> default, as the section says."""
    section = TEXT.split(f"\n### {heading}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (?:`(.*?)`)? ?\|.* \|$", section, re.MULTILINE)
    return {key: default for keys, default in rows for key in re.findall(r"\w+", keys)}


def default_of(field: FieldInfo) -> str:
    """As TOML; empty for what must be given, or means something else when it is left out."""
    value = None if field.is_required() else field.get_default(call_default_factory=True)
    return "" if value is None else json.dumps(to_jsonable_python(value))


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_key_of_a_training_file_is_there_with_its_default(heading: str) -> None:
    model = SECTIONS[heading]
    elsewhere = EnvironmentTable.model_fields.keys() if model is EvalEnvironment else set()
    fields = {name: field for name, field in model.model_fields.items() if name not in TABLES | elsewhere}
    assert written(heading) == {name: default_of(field) for name, field in fields.items()}


def test_every_key_of_an_evaluation_file_is_there_with_its_default() -> None:
    fields = EvaluationConfig.model_fields
    assert written("`[[eval]]`") == {key: default_of(fields[name]) for key, name in FIELDS.items()}
