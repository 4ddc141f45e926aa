"""Imports the package and makes its environment, and names what goes wrong so that its author can act on it.

Must run in the main thread and outside any event loop: constructors install signal handlers and may start loops.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import os
import re
import sys
import traceback
from dataclasses import dataclass
from typing import Any

from . import arguments, current, legacy
from .adapters import Adapter
from .failures import ENVIRONMENT, INFRASTRUCTURE, chain
from .judge_calls import lead_judge_calls

_MISSING_NAME = re.compile(r"module 'verifiers[\w.]*' has no attribute|cannot import name .* from 'verifiers")
_DATASETS = (re.compile(r"(?:datasets/|[\"'`])([\w.-]+/[\w.-]+)[\"'`/ ]"), re.compile(r"[\"'`]([\w.-]+)[\"'`]"))
_CORPUS = re.compile(r"Resource\s+(?:\x1b\[[\d;]*m)?'?([\w./-]+).{0,20}not found\..*NLTK", re.DOTALL)
_NETWORK_ERRORS = {
    "OfflineModeIsEnabled", "LocalEntryNotFoundError", "RepositoryNotFoundError", "GatedRepoError", "HfHubHTTPError",
    "DatasetNotFoundError", "EntryNotFoundError", "RevisionNotFoundError", "CouldNotReachHub",
}  # fmt: skip


@dataclass
class LoadError(Exception):
    """Why the environment cannot be used: a `fatal` frame."""

    code: str
    message: str
    hint: str = ""
    kind: str = ENVIRONMENT
    trace: str = ""
    secrets: tuple[str, ...] = ()  # that it asked for and has not

    def to_frame(self) -> dict[str, Any]:
        """The wire's shape."""
        failure = {"kind": self.kind, "code": self.code, "message": self.message, "hint": self.hint}
        return {"type": "fatal", "failure": failure, "traceback": self.trace, "secrets": list(self.secrets)}


def set_defaults(judge_base_url: str | None) -> None:
    """Point clients that packages build by themselves (JudgeRubric, `AsyncOpenAI()`, Anthropic's, verifiers' own
    default) at the judges' route. What the run's secrets set already is left alone."""
    if judge_base_url is None:
        return
    root = judge_base_url.removesuffix("/v1")
    for name, value in {
        "OPENAI_BASE_URL": judge_base_url,
        "OPENAI_API_KEY": "box",
        "ANTHROPIC_BASE_URL": root,
        "ANTHROPIC_API_KEY": "box",
        "PRIME_INFERENCE_URL": judge_base_url,
        "PRIME_API_KEY": "box",
    }.items():
        os.environ.setdefault(name, value)
    lead_judge_calls(judge_base_url.removesuffix("/v1"))


def load(command: dict[str, Any]) -> Adapter:
    """Answer a `load` command. Raises LoadError."""
    set_defaults(command.get("judge_base_url"))
    version = verifiers_version()
    module = import_module(command["module"])
    try:
        if hasattr(module, "load_environment"):
            return _load_legacy(module, command, version)
        return _load_current(module, command, version)
    except LoadError:
        raise
    except (Exception, SystemExit) as error:
        raise explain(error, command) from error


def verifiers_version() -> str:
    """The installed release, "" when there is none."""
    try:
        return importlib.metadata.version("verifiers")
    except importlib.metadata.PackageNotFoundError:
        return ""


def import_module(name: str) -> Any:
    """Import the entry module. Raises LoadError."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise (
            _missing_name(error)
            or dataset_error(error)
            or _missing_key(error)
            or LoadError(
                "import_error",
                f"importing {name} failed: {type(error).__name__}: {error}",
                "Run `python -c 'import " + name + "'` in a fresh environment with only the package installed.",
                trace=trace_of(error),
            )
        ) from error


def _load_legacy(module: Any, command: dict[str, Any], version: str) -> Adapter:
    verifiers = importlib.import_module("verifiers")
    try:
        verifiers.Environment  # noqa: B018 - 0.4 and later have none
    except AttributeError:
        raise LoadError(
            "verifiers_generation_mismatch",
            f"the package defines load_environment, which verifiers {version} no longer supports",
            'Require "verifiers<0.4", or set [tool.envhub] generation = "legacy".',
        ) from None
    function = module.load_environment
    values = arguments.for_function(function, command)
    problem = arguments.signature_problem(function, values)
    if problem is not None:
        raise LoadError("bad_arguments", problem, "See the arguments on the version's page.")
    adapter = legacy.load(module, command["module"], values)
    if adapter.outdated:
        raise LoadError(
            "outdated_environment",
            f"{adapter.outdated}.is_completed takes messages and state, as verifiers before 0.1.8 called it",
            "Write it as a @vf.stop method that takes state; env_response returns the messages alone.",
        )
    if getattr(adapter.env, "env_id", None) == command["module"]:
        adapter.env.env_id = command["env_id"]
    return adapter


def _load_current(module: Any, command: dict[str, Any], version: str) -> Adapter:
    if not current.is_available():
        exported = getattr(module, "__all__", None)
        if exported is None or not any("askset" in str(name) for name in exported):
            raise _nothing_to_load(
                module,
                f"{command['module']} has no function load_environment and exports no taskset",
                "Define load_environment(), or export a Taskset subclass in __all__.",
            )
        raise LoadError(
            "verifiers_generation_mismatch",
            f"the package exports a taskset of the current generation, but verifiers {version} is installed",
            'Require "verifiers>=0.3.1".',
        )
    if not current.exports_taskset(module):
        raise _nothing_to_load(
            module,
            f"{command['module']} has no function load_environment and exports no Taskset subclass in __all__",
            "Define load_environment() (verifiers<0.4), or export exactly one Taskset subclass in __all__.",
        )
    return current.load(module, command)


def _nothing_to_load(module: Any, problem: str, hint: str) -> LoadError:
    """A folder without __init__.py is imported as an empty module, whatever its files define."""
    if getattr(module, "__file__", None) is None:
        problem = f"the folder {module.__name__} has no __init__.py: nothing in it is imported"
        hint = f"Write {module.__name__}/__init__.py, and import what defines the environment there."
    return LoadError("no_load_environment", problem, hint)


def explain(error: BaseException, command: dict[str, Any]) -> LoadError:
    """Name what an exception of load_environment (or of a taskset's constructor) means."""
    for meaning in (_missing_name, dataset_error, _corpus_error, _missing_key, _missing_column):
        found = meaning(error)
        if found is not None:
            return found
    problem = arguments.validation_problem(error, command)
    if problem is not None:
        return LoadError("bad_arguments", problem, "See the arguments on the version's page.", trace=trace_of(error))
    root = list(chain(error))[-1]
    return LoadError(
        "load_failed",
        f"making the environment failed: {type(root).__name__}: {root}",
        "The traceback is in the run's log.",
        trace=trace_of(error),
    )


def trace_of(error: BaseException) -> str:
    """The whole traceback, bounded."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-20_000:]


def _missing_name(error: BaseException) -> LoadError | None:
    """The library is absent, or this release lacks a name (the build then retries an older one)."""
    for link in chain(error):
        if isinstance(link, ModuleNotFoundError) and link.name == "verifiers":
            return LoadError(
                "verifiers_missing",
                f"verifiers is not installed for {sys.executable}",
                'Put "verifiers" among the dependencies in pyproject.toml.',
            )
        is_module = isinstance(link, ModuleNotFoundError) and (link.name or "").split(".")[0] == "verifiers"
        if is_module or (isinstance(link, AttributeError | ImportError) and _MISSING_NAME.search(str(link))):
            return LoadError(
                "no_verifiers_name",
                f"verifiers {verifiers_version()}: {link}",
                "Pin the release of verifiers that the package was written for.",
                trace=trace_of(error),
            )
    return None


def _missing_key(error: BaseException) -> LoadError | None:
    for link in chain(error):
        keys = _keys_asked_for(link)
        if keys is not None:
            stored = " and ".join(f"`hub secret set {key}`" for key in keys) or "`hub secret set`"
            granted = " ".join(f"--secret {key}" for key in keys) or "--secret"
            return LoadError(
                "missing_secret",
                f"the environment needs {', '.join(keys) or link}",
                f"Store it with {stored}, and grant it to the run with {granted}.",
                trace=trace_of(error),
                secrets=keys,
            )
    return None


def _keys_asked_for(error: BaseException) -> tuple[str, ...] | None:
    """The names that verifiers' `ensure_keys`, or `os.environ[...]`, did not find; None for another error."""
    if type(error).__name__ == "MissingKeyError":
        return tuple(str(key) for key in getattr(error, "keys", ()) or ())
    if not isinstance(error, KeyError) or error.__traceback__ is None:
        return None
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return (str(error.args[0]),) if frame.f_locals.get("self") is os.environ else None


def _missing_column(error: BaseException) -> LoadError | None:
    """The library's own KeyError names `question` only, and not where it was looked for."""
    for link in chain(error):
        places = traceback.extract_tb(link.__traceback__)
        if isinstance(link, KeyError) and any(place.name == "_ensure_prompt" for place in places):
            return LoadError(
                "no_prompt_column",
                f"the data set has no column prompt, and no column {link.args[0]} to make it from",
                'Rename the one that holds the question: dataset.rename_column("text", "question").',
                trace=trace_of(error),
            )
    return None


def dataset_error(error: BaseException) -> LoadError | None:
    """A data set that could not be reached from the box, which has no network."""
    links = list(chain(error))
    for link in links:
        module = type(link).__module__.split(".")[0]
        names = {base.__name__ for base in type(link).__mro__}
        hub = module in {"datasets", "huggingface_hub"} and names & _NETWORK_ERRORS
        text = str(link)
        unreachable = isinstance(link, ConnectionError | OSError) and ("Hub" in text or "huggingface" in text)
        if not hub and not unreachable:
            continue
        found = (match for pattern in _DATASETS if (match := pattern.search(text)))
        name = next((match.group(1) for match in found), "")
        return LoadError(
            "dataset_needs_network",
            f"the data set {name or 'of this environment'} cannot be reached from the sandbox: {text[:500]}",
            f"An administrator can run `hub data add {name if '/' in name else 'OWNER/NAME'} DIRECTORY`, "
            "or let the hub fetch it.",
            kind=INFRASTRUCTURE if "timed out" in text else ENVIRONMENT,
            trace=trace_of(error),
        )
    return None


def _corpus_error(error: BaseException) -> LoadError | None:
    """A corpus that NLTK would download, as TextArena's word games do."""
    for link in chain(error):
        found = _CORPUS.search(str(link)) if isinstance(link, LookupError) else None
        if found is not None:
            return LoadError(
                "corpus_needs_network",
                f"the NLTK corpus {found.group(1)} is not in the package, and the sandbox has no network to fetch it",
                "Put its nltk_data folder into the package, and that folder first into nltk.data.path.",
                trace=trace_of(error),
            )
    return None


def python_version() -> str:
    """This interpreter, as `hello` reports it."""
    import platform

    return platform.python_version()


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """A function's parameters; empty when it has no signature."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}
