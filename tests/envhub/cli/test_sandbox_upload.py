"""Where `hub sandbox upload` puts files, and which."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from envhub.cli.main import app
from envhub.cli.terminal.session import Session
from typer.testing import CliRunner, Result

ID = "01a20f37-5266-7130-9153-28a7d5490a25"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src/main.py").write_text("print(1)")
    (folder / ".env").write_text("A=b")
    return folder


def uploaded(tmp_path: Path, source: Path, path: str, code: int = 0) -> tuple[list[str], Result]:
    found: list[str] = []

    def hub(request: httpx.Request) -> httpx.Response:
        found.append(request.url.params["path"])
        return httpx.Response(200, json={})

    session = Session(httpx.MockTransport(hub), {"HUB_URL": "http://hub.test"}, tmp_path / "config.toml")
    result = CliRunner().invoke(app, ["sandbox", "upload", ID, str(source), path], obj=session, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return found, result


@pytest.mark.parametrize(("path", "place"), [("/app", "/app"), ("/app/", "/app/project")])
def test_a_directory_becomes_the_path_or_is_put_into_it(tmp_path: Path, project: Path, path: str, place: str) -> None:
    assert uploaded(tmp_path, project, path)[0] == [f"{place}/.env", f"{place}/src/main.py"]


@pytest.mark.parametrize(("path", "place"), [("/main.py", "/main.py"), ("/app/", "/app/main.py")])
def test_so_does_a_file(tmp_path: Path, project: Path, path: str, place: str) -> None:
    assert uploaded(tmp_path, project / "src/main.py", path)[0] == [place]


def test_a_link_is_the_file_that_it_leads_to(tmp_path: Path, project: Path) -> None:
    (project / "run.py").symlink_to("src/main.py")
    assert "/app/run.py" in uploaded(tmp_path, project, "/app")[0]


@pytest.mark.parametrize("target", ["src", "nowhere"])
def test_a_link_that_cannot_be_a_file_is_left_out_by_name(tmp_path: Path, project: Path, target: str) -> None:
    (project / "link").symlink_to(target)
    found, result = uploaded(tmp_path, project, "/app")
    assert f"links to folders or no files: {project / 'link'}" in result.stderr
    assert found == ["/app/.env", "/app/src/main.py"]
