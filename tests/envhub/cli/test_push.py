from __future__ import annotations

from pathlib import Path

import pytest
from envhub.errors import EnvhubError
from envhub.protocol.registry.packages import VersionState

from hub.registry.models import Version
from tests.envhub.cli.conftest import Cli, MakeCli
from tests.factories.accounts import make_user
from tests.factories.packages import write_package


def _push(cli: Cli, *arguments: str, code: int = 0) -> dict[str, object]:
    return cli.json("push", *arguments, "--no-wait", code=code)  # type: ignore[no-any-return]


def test_a_package_is_found_by_name_and_pushed(cli: Cli) -> None:
    write_package(Path("environments"))
    done = _push(cli, "tiny-env")
    assert done["created"] is True
    assert done["version"]["version"] == "0.1.0"  # type: ignore[index]
    assert cli.json("env", "info", "tiny-env")["environment"]["latest_version"] in {"0.1.0", None}


def test_a_folder_without_a_package_is_not_called_absent(cli: Cli) -> None:
    Path("empty").mkdir()
    assert "no pyproject.toml in empty or environments/empty" in cli("push", "empty", code=2).stderr


def test_a_repository_of_several_packages_names_them(cli: Cli) -> None:
    for name in ("first", "second"):
        write_package(Path("games") / name, name)
    for given in ((), (".",), ("games",)):
        named = cli("push", *given, "--no-wait", code=2).stderr
        assert "Packages below it: games/first/first, games/second/second. Give one of them." in named


@pytest.mark.parametrize(
    ("extra", "code", "problem"),
    [
        ("", 2, "repository has no environment"),
        ('[tool.hatch.build.targets.wheel]\nonly-include = "x"\n', 1, "the package does not build"),
    ],
)
def test_the_project_of_a_whole_repository_is_no_environment(extra: str, code: int, problem: str, cli: Cli) -> None:
    directory = write_package(Path(), "repository", source="env = vf.load_environment('x')\n", pyproject_extra=extra)
    write_package(directory / "environments")
    refused = cli("push", "repository", "--no-wait", code=code).stderr
    assert problem in refused
    assert "Packages below it: environments/tiny_env. Give one of them." in refused


def test_the_same_content_again_changes_nothing(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    _push(cli, str(directory))
    assert _push(cli, str(directory))["created"] is False


def test_other_content_under_the_same_version_is_refused_with_a_hint(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    _push(cli, str(directory))
    (directory / "tiny_env.py").write_text("# changed\n" + (directory / "tiny_env.py").read_text())
    assert "--bump" in cli("push", str(directory), "--no-wait", code=1).stderr


def test_bump_raises_the_version_and_a_failed_push_puts_it_back(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    assert _push(cli, str(directory), "--bump", "minor")["version"]["version"] == "0.2.0"  # type: ignore[index]
    before = (directory / "pyproject.toml").read_text()
    cli("push", str(directory), "--bump", "major", "--owner", "nobody-here", "--no-wait", code=1)
    assert (directory / "pyproject.toml").read_text() == before


def test_an_interrupted_push_puts_it_back_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_package(Path("environments")) / "pyproject.toml"
    before = path.read_text()

    def interrupt(*_: object) -> None:
        assert path.read_text() != before
        raise KeyboardInterrupt

    monkeypatch.setattr("envhub.cli.environments.push._upload", interrupt)
    cli("push", "tiny-env", "--bump", "patch", code=130)
    assert path.read_text() == before


@pytest.mark.parametrize("bump", [(), ("--bump", "patch")])
def test_a_failed_push_keeps_what_was_written_meanwhile(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, bump: tuple[str, ...]
) -> None:
    path = write_package(Path("environments")) / "pyproject.toml"

    def edit_and_fail(*_: object) -> None:
        path.write_text(path.read_text() + "# written while the push went on\n")
        raise EnvhubError("the hub is away")

    monkeypatch.setattr("envhub.cli.environments.push._upload", edit_and_fail)
    cli("push", "tiny-env", *bump, code=1)
    assert path.read_text().endswith("# written while the push went on\n")


def test_waiting_reports_an_invalid_build_with_exit_1(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    _push(cli, str(directory))
    Version.objects.update(state=VersionState.INVALID.value)
    assert "invalid" in cli("push", str(directory), code=1).output


def test_waiting_reports_a_ready_build(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    _push(cli, str(directory))
    Version.objects.update(state=VersionState.READY.value)
    assert "ready alice/tiny-env@0.1.0 (public)" in cli("push", str(directory)).stdout


def test_a_ready_version_whose_rollout_failed_is_pushed_with_a_warning(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    _push(cli, str(directory))
    checks = [{"name": "scripted-rollout", "passed": False, "summary": "KeyError: 'city'"}]
    Version.objects.update(state=VersionState.READY.value, checks=checks)
    assert "warning: scripted-rollout: KeyError: 'city'" in cli("push", str(directory)).stderr


def test_a_version_that_needs_something_is_pushed_with_the_command_that_meets_it(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    _push(cli, str(directory))
    need = {"kind": "data_set", "name": "openai/gsm8k", "detail": "it is not in this hub"}
    check = {"name": "load", "passed": False, "summary": "not loaded", "needs": [need]}
    Version.objects.update(state=VersionState.READY.value, checks=[check])
    for command in (("push", str(directory)), ("env", "info", "tiny-env")):
        told = cli(*command).stdout
        assert "data set openai/gsm8k: it is not in this hub" in told
        assert "hub data add openai/gsm8k DIRECTORY" in told
        assert "FAIL" not in told
    assert "needs 1" in cli("env", "list").stdout


def test_info_of_what_is_absent_exits_1(cli: Cli) -> None:
    cli("env", "info", "alice/nothing", code=1)


def test_info_shows_why_a_check_failed(cli: Cli) -> None:
    _push(cli, str(write_package(Path("environments"))))
    long = "Write the answer into info.\n\n" + "".join(f"  frame {number}\n" for number in range(60))
    found = [
        {"name": "load", "passed": True, "summary": "fine", "detail": "quiet"},
        {"name": "scripted-rollout", "passed": False, "summary": "it broke", "detail": f"{long}KeyError: 'answer'"},
    ]
    failure = {"kind": "environment", "code": "x", "message": "the rollout broke", "hint": "mend it"}
    Version.objects.update(checks=found, failure=failure)
    said = cli("env", "info", "tiny-env").stdout
    assert "the rollout broke" in said
    assert "mend it" in said
    assert "FAIL scripted-rollout: it broke" in said
    assert "         KeyError: 'answer'" in said
    assert "         Write the answer into info.\n         (51 lines before)" in said
    assert "frame 50" not in said
    assert "frame 51" in said
    assert "quiet" not in said


def test_a_push_says_what_to_do_about_a_failed_check(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    _push(cli, str(directory))
    detail = "Include rows.csv in the wheel.\n\nTraceback:\n  many\n  frames\n  of it"
    check = {"name": "load", "passed": False, "summary": "no rows.csv", "detail": detail}
    Version.objects.update(state=VersionState.READY.value, checks=[check])
    said = cli("push", str(directory)).stderr
    assert "warning: load: no rows.csv" in said
    assert "\n  Include rows.csv in the wheel.\n" in said
    assert "Traceback" not in said


def test_info_of_what_could_not_be_classified(cli: Cli) -> None:
    _push(cli, str(write_package(Path("environments"), source="x = 1\n")))
    assert "None" not in cli("env", "info", "tiny-env").stdout


def test_what_is_not_there_is_not_asked_about(cli: Cli) -> None:
    assert "Delete" not in cli("env", "delete", "alice/absent", code=1).stderr


def test_a_private_environment_is_absent_for_others(cli: Cli, make_cli: MakeCli) -> None:
    _push(cli, str(write_package(Path("environments"))), "--visibility", "private")
    bob = make_cli(make_user("bob"))
    bob("env", "info", "alice/tiny-env", code=1)
    assert bob.json("env", "list") == []


def test_pull_gives_back_the_source(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    _push(cli, str(directory))
    cli("pull", "alice/tiny-env", "elsewhere")
    assert Path("elsewhere/tiny_env.py").read_text() == (directory / "tiny_env.py").read_text()
    assert "not empty" in cli("pull", "alice/tiny-env", "elsewhere", code=2).stderr


def test_what_was_pulled_can_be_edited_and_pushed(cli: Cli) -> None:
    directory = write_package(Path("environments"))
    pyproject = directory / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().partition("[tool.hatch.build]")[0])  # its sdist has the whole folder
    _push(cli, str(directory))
    cli("pull", "alice/tiny-env", "elsewhere")
    assert not Path("elsewhere/PKG-INFO").exists()
    Path("elsewhere/README.md").write_text("# Other words")
    done = _push(cli, "elsewhere", "--bump", "patch")
    assert done["version"]["version"] == "0.1.1"  # type: ignore[index]


def test_pull_fills_an_empty_working_directory(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _push(cli, str(write_package(Path("environments"))))
    Path("here").mkdir()
    monkeypatch.chdir("here")
    cli("pull", "alice/tiny-env", ".")
    assert Path("tiny_env.py").is_file()
    assert not list(Path().glob(".hub-pull-*"))


def test_files_are_listed_and_printed(cli: Cli) -> None:
    _push(cli, str(write_package(Path("environments"))))
    assert "tiny_env.py" in {item["path"] for item in cli.json("env", "files", "alice/tiny-env@0.1.0")}
    assert "load_environment" in cli("env", "files", "alice/tiny-env@0.1.0", "tiny_env.py").stdout


def test_versions_are_yanked_unyanked_and_deleted(cli: Cli) -> None:
    _push(cli, str(write_package(Path("environments"))))
    assert cli.json("env", "yank", "tiny-env@0.1.0", "--reason", "broken")["yanked"] is True
    assert "none to use" in cli("env", "info", "tiny-env").stdout
    assert "broken" in cli("env", "info", "tiny-env@0.1.0").stdout
    assert cli.json("env", "unyank", "tiny-env@0.1.0")["yanked"] is False
    cli("env", "yank", "tiny-env@0.1.0")
    assert "yanked" in cli("env", "info", "tiny-env@0.1.0").stdout
    cli("env", "unyank", "tiny-env@0.1.0")
    cli("env", "yank", "tiny-env", code=2)
    cli("env", "delete", "tiny-env@0.1.0", "--yes")
    assert cli.json("env", "versions", "tiny-env") == []


def test_visibility_and_description_are_changed(cli: Cli) -> None:
    _push(cli, str(write_package(Path("environments"))))
    cli("env", "set", "tiny-env", "--visibility", "private", "--description", "New words")
    view = cli.json("env", "info", "tiny-env")["environment"]
    assert (view["visibility"], view["description"]) == ("private", "New words")


def test_a_push_shows_up_as_a_build_run(cli: Cli) -> None:
    run_id = _push(cli, str(write_package(Path("environments"))))["build_run_id"]
    assert cli.json("run", "show", str(run_id))["kind"] == "build"
    assert str(run_id) in {run["id"] for run in cli.json("run", "list", "--kind", "build")}
    assert cli.json("run", "logs", str(run_id))["run_id"] == run_id
    assert cli.json("run", "cancel", str(run_id))["state"] == "cancelled"


def _made(cli: Cli, visibility: str) -> None:
    """The file of a package that `hub init` wrote, with other words in [tool.envhub]."""
    cli("init", "my-env")
    file = Path("environments/my-env/pyproject.toml")
    text = file.read_text()
    assert 'visibility = "private"' in text
    file.write_text(text.replace('visibility = "private"', visibility))


@pytest.mark.parametrize(
    ("stated", "arguments", "becomes", "other"),
    [
        ("", [], "public", "--private"),
        ('visibility = "private"', [], "private", "--public"),
        ('visibility = "private"', ["--public"], "public", ""),
        ("", ["--private"], "private", ""),
        ('visibility = "public"', ["--visibility", "private"], "private", ""),
    ],
)
def test_who_will_see_a_new_environment_is_said_with_how_to_choose(
    cli: Cli, stated: str, arguments: list[str], becomes: str, other: str
) -> None:
    _made(cli, stated)
    done = cli("push", "my-env", "--no-wait", *arguments)
    told = " ".join(done.stderr.split())
    assert f"alice/my-env is new and becomes {becomes}" in told
    assert other in told
    assert (f'visibility = "{other[2:]}"' in told) is bool(other)
    assert cli.json("env", "info", "my-env")["environment"]["visibility"] == becomes


def test_an_environment_that_is_there_stays_as_it_is(cli: Cli) -> None:
    _made(cli, 'visibility = "private"')
    cli("push", "my-env", "--no-wait")
    cli("env", "set", "my-env", "--visibility", "public")
    assert "is new" not in cli("push", "my-env", "--bump", "patch", "--no-wait").stderr
    assert cli.json("env", "info", "my-env")["environment"]["visibility"] == "public"


def test_contradictions_and_unknown_words_are_refused(cli: Cli) -> None:
    _made(cli, 'visibility = "secret"')
    assert "[tool.envhub] visibility = 'secret'" in cli("push", "my-env", code=1).stderr
    assert "contradict" in cli("push", "my-env", "--public", "--visibility", "private", code=2).stderr


def test_a_description_that_nobody_wrote_is_warned_of(cli: Cli) -> None:
    _made(cli, 'visibility = "private"')
    assert "the template's description" in " ".join(cli("push", "my-env", "--no-wait").stderr.split())
    file = Path("environments/my-env/pyproject.toml")
    file.write_text(file.read_text().replace("one sentence about the task", "sums"))
    assert "template" not in cli("push", "my-env", "--bump", "patch", "--no-wait").stderr
