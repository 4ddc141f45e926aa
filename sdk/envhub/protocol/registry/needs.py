"""What a version needs from outside, as found by its checks: a data set, a secret, a host, ...

A need is not a fault of the package: the version is published and installable, and states how to meet each need.
Names come from hostile boxes and end up in commands that users paste into a shell, so they are one printable line,
must have the form of what they name, and are quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from shlex import quote

from pydantic import Field, field_validator

from envhub.protocol.accounts.secrets import SECRET_NAME, SecretName
from envhub.protocol.base import JsonObject, Request, Response


class NeedKind(StrEnum):
    """The kind of a need.

    It determines who can meet it: an administrator, the user who starts a run, or the worker's operator.
    """

    DATA_SET = "data_set"  # "openai/gsm8k": a Hugging Face repository of kind dataset
    MODEL = "model"  # "Qwen/Qwen3-0.6B": a Hugging Face repository of kind model (a tokenizer, an embedding)
    CORPUS = "corpus"  # "nltk:words", "tiktoken:cl100k_base", "spacy:en_core_web_sm"
    FILE = "file"  # "https://host/path": a plain file fetched while loading
    SECRET = "secret"  # "SEARCH_API_KEY"
    ARGUMENT = "argument"  # "path": an argument of load_environment without a default
    HOST = "host"  # "api.example.com:443"
    JUDGE = "judge"  # the name by which the environment asks for a judge model, or "*"
    SANDBOX = "sandbox"  # a separate machine for model-written code; the name is an image, or "*"
    GPU = "gpu"  # "*"
    GIT_HOST = "git_host"  # "github.com": host of a direct reference
    CLONE_HOST = "clone_host"  # "github.com": host of a repository that the code clones
    PROGRAM = "program"  # "java": a program missing in the box; also "npm:pi-acp@0.0.33", "playwright:chromium-1255"
    OPEN_FILES = "open_files"  # "65536": more than the worker's host allows a process


class Need(Response):
    """Something that is missing. Two needs are the same if their kind and name agree."""

    kind: NeedKind
    name: str = Field(min_length=1, max_length=500)
    detail: str = Field(default="", max_length=1000)  # what was reported when it was missing

    @field_validator("name")
    @classmethod
    def _one_printable_line(cls, name: str) -> str:
        """Replace control characters, which a terminal obeys even inside quotes."""
        return "".join(character if character.isprintable() else "?" for character in name)

    @property
    def key(self) -> tuple[NeedKind, str]:
        """The key by which needs are compared."""
        return self.kind, self.name

    @property
    def is_administrators(self) -> bool:
        """Whether there is a command that meets it which only administrators may use."""
        return self.kind in _ADMINISTRATORS

    @property
    def words(self) -> str:
        """A description such as "data set openai/gsm8k" or "judge"."""
        if self.kind is NeedKind.PROGRAM and self.name.startswith(NPM):
            return f"npm package {self.name.removeprefix(NPM)}"
        if self.kind is NeedKind.PROGRAM and self.name.startswith(BROWSER):
            return f"Playwright's browser {self.name.removeprefix(BROWSER)}"
        kind = "GPU" if self.kind is NeedKind.GPU else self.kind.value.replace("_", " ")
        return kind if self.name == ANY else f"{kind} {self.name}"


class CheckSettings(Request):
    """The settings for a version's checks, stored with it: `[tool.envhub] build_args`, then `hub env check`."""

    env_args: JsonObject = Field(default_factory=dict)
    taskset: JsonObject | None = None
    harness: JsonObject | None = None
    secrets: tuple[SecretName, ...] = ()  # names of the owner's stored secrets
    judges: dict[str, str] = Field(default_factory=dict)  # model name that the environment asks for -> registered model
    allow_hosts: tuple[str, ...] = ()  # host:port

    def over(self, earlier: CheckSettings) -> CheckSettings:
        """Merge over `earlier`: keys and grants are added, a taskset or harness replaces the earlier one."""
        return CheckSettings(
            env_args={**earlier.env_args, **self.env_args},
            taskset=earlier.taskset if self.taskset is None else self.taskset,
            harness=earlier.harness if self.harness is None else self.harness,
            secrets=tuple(dict.fromkeys((*earlier.secrets, *self.secrets))),
            judges={**earlier.judges, **self.judges},
            allow_hosts=tuple(dict.fromkeys((*earlier.allow_hosts, *self.allow_hosts))),
        )

    @property
    def loads_otherwise(self) -> bool:
        """Whether any of these settings may change how the environment loads."""
        return bool(self.env_args or self.taskset or self.harness or self.secrets)

    def argued_unlike(self, other: CheckSettings) -> bool:
        """Return whether arguments are given here that differ from those of `other`."""
        mine, theirs = ((one.env_args, one.taskset, one.harness) for one in (self, other))
        return any(mine) and mine != theirs

    def meets(self, need: Need) -> bool:
        """Return whether these settings meet a need."""
        match need.kind:
            case NeedKind.SECRET:
                return need.name in self.secrets
            case NeedKind.HOST:
                return need.name in self.allow_hosts
            case NeedKind.JUDGE:
                return bool(self.judges) if need.name == ANY else not self.judges.keys().isdisjoint({need.name, ANY})
            case NeedKind.ARGUMENT:
                return any(_has(given, need.name) for given in (self.env_args, self.taskset, self.harness))
            case _:
                return False


ANY = "*"  # a name that adds nothing to the kind
NPM = "npm:"  # prefix of programs that are packages of the npm registry
BROWSER = "playwright:"  # prefix of programs that are Playwright's browsers
_REPOSITORY = r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?"
_HOST_NAME = r"[A-Za-z0-9][A-Za-z0-9.-]*"
_NAMES = {  # the form a name needs in a command, so that it is never read as an option
    NeedKind.DATA_SET: _REPOSITORY,
    NeedKind.MODEL: _REPOSITORY,
    NeedKind.CORPUS: r"(nltk|tiktoken|spacy):[A-Za-z0-9][\w./-]*",
    NeedKind.FILE: r"https?://\S+",
    NeedKind.SECRET: SECRET_NAME.strip("^$"),
    NeedKind.HOST: _HOST_NAME + r":[0-9]{1,5}",
    NeedKind.SANDBOX: r"[A-Za-z0-9][\w./:@-]*",
}
_COMMANDS = {
    NeedKind.DATA_SET: "hub data add {name} DIRECTORY",
    NeedKind.MODEL: "hub data add {name} DIRECTORY --kind model",
    NeedKind.CORPUS: "hub data add {corpus} FILE --kind {family}",
    NeedKind.FILE: "hub data add {name} FILE --kind file",
    NeedKind.SANDBOX: "hub image add {name} TAR --owner {owner}",
    NeedKind.SECRET: "hub secret set {name} && hub env check {environment} --secret {name}",
    NeedKind.ARGUMENT: "hub env check {environment} --env-args {argument}",
    NeedKind.HOST: "hub env check {environment} --allow-host {name}",
    NeedKind.JUDGE: "hub env check {environment} --judge {name}=OWNER/MODEL",
}
_ADMINISTRATORS = {NeedKind.DATA_SET, NeedKind.MODEL, NeedKind.CORPUS, NeedKind.FILE}
_OPERATORS = {
    NeedKind.SANDBOX: ", or `hub image build` of its Dockerfile, or the operator lets its registry through with "
    "HUB_IMAGE_REGISTRIES; a run whose arguments choose other tasks may start without it"
}
_HINTS = {
    NeedKind.SANDBOX: "hubs have sandboxes for prime-sandboxes, the runtimes of verifiers and the docker package (its "
    "command line too, if an operator has put docker-cli on the workers), but none for services such as Modal or E2B",
    NeedKind.GPU: "it needs a worker whose boxes have a GPU",
    **{
        kind: f"an operator lets {{name}} through with {setting}, and the hub's next start builds it again; "
        "if a worker does not reach it: `hub env rebuild {environment}`"
        for kind, setting in ((NeedKind.GIT_HOST, "HUB_GIT_HOSTS"), (NeedKind.CLONE_HOST, "HUB_CLONE_HOSTS"))
    },
    NeedKind.OPEN_FILES: "start the worker with a higher limit (`ulimit -Hn {name}`, or `LimitNOFILE={name}` in its "
    "unit), then: `hub env rebuild {environment}`",
    NeedKind.PROGRAM: "install {name} on the worker's host, then: `hub env rebuild {environment}`",
}
_NO_NPM_PACKAGE = (
    "the npm registry of the worker's operator has none; choose a version that it has, or the operator adds this one, "
    "then: `hub env rebuild {environment}`"
)
_NO_BROWSER = (
    "on the worker's host, by the release of Playwright that the version's lock has: `PLAYWRIGHT_BROWSERS_PATH="
    "/usr/lib/playwright playwright install --with-deps`, then: `hub env rebuild {environment}`"
)
_FLAGS = {  # options of `hub eval run`
    NeedKind.SECRET: "--secret {name}",
    NeedKind.ARGUMENT: "--env-args {argument}",
    NeedKind.HOST: "--allow-host {name}",
    NeedKind.JUDGE: "--judge {name}=OWNER/MODEL",
}
TOML_KEYS = {  # keys in the tables of a run's TOML
    NeedKind.SECRET: "secrets",
    NeedKind.ARGUMENT: "args",
    NeedKind.HOST: "allow_hosts",
    NeedKind.JUDGE: "judges",
}


def command_for(need: Need, environment: str) -> str:
    """Return the command that meets a need of `environment` ("owner/name[@version]"), or ""."""
    return _filled(_COMMANDS, need, quote(environment))


def hint_for(need: Need, environment: str) -> str:
    """Describe how to meet a need: the command, or who can decide it."""
    command = command_for(need, environment)
    if command:
        return f"`{command}`" + (" (administrators)" if need.is_administrators else "") + _OPERATORS.get(need.kind, "")
    template = _HINTS.get(need.kind, "no command names that: look at how the package loads")
    if need.kind is NeedKind.PROGRAM and need.name.startswith(NPM):
        template = _NO_NPM_PACKAGE
    if need.kind is NeedKind.PROGRAM and need.name.startswith(BROWSER):
        template = _NO_BROWSER
    return template.format(name=need.name.replace("`", "'"), environment=quote(environment))


def way_of_a_run(need: Need, environment: str, given: str) -> str:
    """Describe how to meet a need for this run, by `given` (what to write for it) or else through the hub."""
    if not given:
        return hint_for(need, environment)
    stored = f", once `hub secret set {need.name}` has stored it" if need.kind is NeedKind.SECRET else ""
    return f"give it to the run, `{given}`{stored}"


def flag_for(need: Need) -> str:
    """Return the option of `hub eval run` that meets a need for that run alone, or ""."""
    return _filled(_FLAGS, need, "")


def flags_for(needs: Iterable[Need]) -> str:
    """Return the options of `hub eval run` for all needs that a run can meet; arguments share one `--env-args`."""
    known = distinct(needs)
    arguments = {need.name: "..." for need in known if need.kind is NeedKind.ARGUMENT}
    flags = [flag_for(need) for need in known if need.kind is not NeedKind.ARGUMENT]
    if arguments:
        flags.append(f"--env-args {quote(json.dumps(arguments, ensure_ascii=False))}")
    return " ".join(filter(None, flags))


def toml_for(need: Need) -> str:
    """Return the value that meets a need in a run's TOML (for `secrets`, `args`, `allow_hosts`, `judges`), or ""."""
    name = json.dumps(need.name, ensure_ascii=False)
    tables = {NeedKind.ARGUMENT: f"{{ {name} = ... }}", NeedKind.JUDGE: f'{{ {name} = "OWNER/MODEL" }}'}
    return tables.get(need.kind) or (f"[{name}]" if flag_for(need) else "")


def line_for(need: Need, table: str) -> str:
    """Return the TOML line that meets a need in a table such as `env[0]`, or ""."""
    return f"{table}.{TOML_KEYS[need.kind]} = {toml_for(need)}" if flag_for(need) else ""


def distinct(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Remove duplicate needs, keeping the first of each."""
    found: dict[tuple[NeedKind, str], Need] = {}
    for need in needs:
        found.setdefault(need.key, need)
    return tuple(found.values())


def _filled(templates: Mapping[NeedKind, str], need: Need, environment: str) -> str:
    template, pattern = templates.get(need.kind, ""), _NAMES.get(need.kind)
    if pattern is not None and not re.fullmatch(pattern, need.name):
        return ""
    family, _, corpus = need.name.partition(":")
    argument = quote(json.dumps({need.name: "..."}, ensure_ascii=False))
    return template.format(
        name=quote(need.name),
        argument=argument,
        environment=environment,
        owner=environment.strip("'").partition("/")[0],
        family=family,
        corpus=quote(corpus),
    )


def _has(given: Mapping[str, object] | None, name: str) -> bool:
    """Return whether a dotted name such as "taskset.path" or "path" exists in a table."""
    here: object = given
    for part in name.removeprefix("taskset.").removeprefix("harness.").split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return True
