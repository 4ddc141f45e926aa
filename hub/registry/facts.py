"""The facts that lists show of an environment, taken from the build's description of its latest version."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.runner import Described
from pydantic import ValidationError

from hub.registry.models import Version

DEFAULT_SPLIT = "eval"


class Kind(StrEnum):
    """The shape of a rollout: one answer, a conversation, or a conversation with tools."""

    SINGLE = "single-turn"
    MULTI = "multi-turn"
    TOOLS = "tools"


@dataclass(frozen=True)
class Facts:
    """`kind` is "" and `examples` None if the build reported nothing about them."""

    kind: str = ""
    examples: int | None = None
    uses_sandbox: bool = False
    lacks: bool = False


def facts_of(version: Version | None) -> Facts:
    """Return the facts of a version; empty facts without one."""
    if version is None:
        return Facts()
    needs = [need for check in version.checks for need in check.get("needs", ())]
    sandbox = any(need.get("kind") == NeedKind.SANDBOX.value for need in (*needs, *version.granted))
    try:
        found = Described.model_validate(version.describe)
    except ValidationError:
        return Facts(uses_sandbox=sandbox, lacks=bool(needs))
    split = str(version.eval_config.get("split") or DEFAULT_SPLIT)
    return Facts(
        kind=_kind(found).value,
        examples=found.size(split),
        uses_sandbox=sandbox
        or "sandbox" in found.env_class.lower()
        or any(split.images for split in found.splits.values()),
        lacks=bool(needs),
    )


def _kind(found: Described) -> Kind:
    if found.tools:
        return Kind.TOOLS
    return Kind.SINGLE if found.max_turns == 1 or found.env_class.startswith("SingleTurn") else Kind.MULTI
