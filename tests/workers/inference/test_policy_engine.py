"""A policy engine without its process; the contract of both kinds is in tests/contract."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from workers.inference.address import EngineAddress
from workers.inference.policy_engine import EngineRefused, PolicyEngine


async def test_one_that_has_ended_refuses_what_was_begun_before() -> None:
    engine = PolicyEngine(cast(Any, SimpleNamespace(address=EngineAddress("http://127.0.0.1:9/v1", "key"))), "policy")
    await engine.close()
    with pytest.raises(EngineRefused, match="has ended"):
        await engine.load_adapter("policy-v1", Path("v1"))
