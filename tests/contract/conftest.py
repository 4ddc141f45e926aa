"""One engine of each kind for all files about engines: vLLM takes most of a minute to start."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.contract.engines import VLLM_ARGUMENTS
from workers.inference.policy_engine import PolicyEngine, PolicyEngineStart, policy_engine
from workers.runs.children import Children

KINDS = [
    pytest.param("torch", marks=pytest.mark.torch),
    pytest.param("vllm", marks=[pytest.mark.vllm, pytest.mark.torch]),
]


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engines' own files."""
    return tmp_path_factory.mktemp("policies")


@pytest.fixture(scope="package")
def base(folder: Path) -> Any:
    """The model that is served."""
    policies = pytest.importorskip("tests.contract.policies")
    return policies.make_policy(folder / "base", 0)


@pytest_asyncio.fixture(scope="package", loop_scope="package", params=KINDS)
async def engine(request: pytest.FixtureRequest, base: Any, folder: Path) -> AsyncIterator[PolicyEngine]:
    """As a training run starts one."""
    start = PolicyEngineStart(
        kind=request.param,
        directory=base.directory,
        name="policy",
        adapters=3,
        rank=pytest.importorskip("tests.contract.policies").RANK,
        vllm_python=os.environ.get("VLLM_PYTHON", ""),
        vllm_arguments=VLLM_ARGUMENTS,
    )
    (folder / "children").mkdir(exist_ok=True)
    async with policy_engine(start, children=Children(folder / "children"), home=folder) as started:
        yield started
