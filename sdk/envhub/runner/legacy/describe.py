"""Describes a legacy environment for the version's page: splits, first rows, tools, rewards, arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Protocol

from ..jsonable import to_json
from ..row_images import images, of_env


class Legacy(Protocol):
    """The object described: envhub.runner.legacy.adapter.LegacyAdapter."""

    env: Any
    module: Any
    leaves: list[Any]

    @property
    def env_class(self) -> str:
        """The name of the environment's class."""
        ...

    @property
    def message_type(self) -> str:
        """`chat` or `completion`."""
        ...

    def split(self, name: str) -> Any:
        """Return a data set, or None."""
        ...

    def weights(self) -> Mapping[str, float]:
        """Map reward functions to weights."""
        ...


def describe(adapter: Legacy, rows: int) -> dict[str, Any]:
    """Return the body of the `described` frame."""
    env = adapter.env
    return {
        "env_class": adapter.env_class,
        "splits": {name: info for name in ("train", "eval") if (info := _split(adapter, name, rows)) is not None},
        "system_prompt": _system_prompt(adapter),
        "tools": tools(adapter),
        "rewards": adapter.weights(),
        "message_type": adapter.message_type,
        "max_turns": _max_turns(env),
        "args_schema": args_schema(adapter),
    }


def _split(adapter: Legacy, name: str, rows: int) -> dict[str, Any] | None:
    dataset = adapter.split(name)
    if dataset is None:
        return None
    first = [to_json(dict(dataset[index])) for index in range(min(rows, len(dataset)))]
    same = name == "eval" and dataset is adapter.split("train")
    image_of = of_env(adapter.leaves[0]) if len(adapter.leaves) == 1 else None
    named = images((dict(dataset[index]) for index in range(len(dataset))), image_of) if image_of and rows else {}
    return {"size": len(dataset), "rows": first, "images": named, **({"rows_of": "train"} if same else {})}


def _system_prompt(adapter: Legacy) -> str | None:
    for leaf in adapter.leaves:
        prompt = getattr(leaf, "system_prompt", None) or getattr(getattr(leaf, "taskset", None), "system_prompt", None)
        if isinstance(prompt, str):
            return prompt
        if prompt:
            return "\n".join(str(_content(message)) for message in prompt)
    return None


def _content(message: Any) -> Any:
    return message.get("content") if isinstance(message, dict) else getattr(message, "content", message)


def _max_turns(env: Any) -> int | None:
    config = getattr(getattr(env, "harness", None), "config", None)
    value = getattr(env, "max_turns", None) or getattr(config, "max_turns", None)
    return value if isinstance(value, int) and value > 0 else None


def tools(adapter: Legacy) -> list[dict[str, Any]]:
    """Return tool definitions: those of ToolEnv and its subclasses, and those of toolsets from their callables."""
    found: dict[str, dict[str, Any]] = {}
    for leaf in adapter.leaves:
        for tool in getattr(leaf, "tool_defs", None) or getattr(leaf, "oai_tools", None) or ():
            data = to_json(tool)
            function = data.get("function", data) if isinstance(data, dict) else {"name": str(data)}
            found.setdefault(str(function.get("name")), function)
        for owner in (getattr(leaf, "taskset", None), getattr(leaf, "harness", None)):
            for toolset in getattr(owner, "toolsets", None) or ():
                for tool in getattr(toolset, "tools", None) or ():
                    entry = _toolset_tool(tool)
                    found.setdefault(entry["name"], entry)
    return list(found.values())


def _toolset_tool(tool: Any) -> dict[str, Any]:
    command = getattr(tool, "command", None) or (tool.get("command") if isinstance(tool, dict) else None)
    if command is not None:
        arguments = getattr(tool, "args", None) or (tool.get("args") if isinstance(tool, dict) else None) or ()
        return {"name": " ".join([str(command), *map(str, arguments)]), "description": "MCP server"}
    name = getattr(tool, "__name__", None) or str(tool)
    return {"name": str(name), "description": inspect.getdoc(tool) or ""}


def args_schema(adapter: Legacy) -> dict[str, Any]:
    """Return load_environment's parameters, and for typed configs the fields of the taskset's and harness's class."""
    schema = signature_schema(getattr(adapter.module, "load_environment", None))
    for name in ("taskset", "harness"):
        config = getattr(getattr(adapter.env, name, None), "config", None)
        if "config" in schema and config is not None:
            schema["config"].setdefault("fields", {})[name] = fields_schema(type(config))
    return schema


def signature_schema(function: Any) -> dict[str, Any]:
    """Map names to {annotation, default}; parameters without a default have no default entry."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    schema: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        entry: dict[str, Any] = {"annotation": annotation_text(parameter.annotation)}
        if parameter.default is not parameter.empty:
            entry["default"] = to_json(parameter.default)
        schema[name] = entry
    return schema


def annotation_text(annotation: Any) -> str:
    """Return an annotation roughly as its author wrote it."""
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def fields_schema(config_type: Any) -> dict[str, Any]:
    """Return the fields of a pydantic config class."""
    schema: dict[str, Any] = {}
    for name, field in getattr(config_type, "model_fields", {}).items():
        entry: dict[str, Any] = {"annotation": annotation_text(field.annotation)}
        if not field.is_required():
            entry["default"] = to_json(field.get_default(call_default_factory=True))
        schema[name] = entry
    return schema
