"""hub/base is made of Debian packages as root's tools would leave it, by anybody. Here of a few of them."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from workers.images.base import UNWANTED, digest_of, ensure_base
from workers.images.base_finish import _dpkg
from workers.images.debian_packages import Package
from workers.images.interface import ImageLacking
from workers.images.store import Store

needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="this host has no apt")


@needs_apt
@pytest.mark.sandbox
@pytest.mark.matrix
async def test_a_shell_made_of_packages_runs_in_a_box(tmp_path: Path) -> None:
    store = Store(tmp_path, max_bytes=10**9)
    try:
        made = await ensure_base(store, ("bash", "dash", "base-passwd", "mawk", "coreutils"))
    except ImageLacking as error:
        pytest.skip(f"no packages: {error.message}")
    assert (await ensure_base(store, ("bash",))).kept == made.kept  # no apt any more
    box = ["bwrap", "--unshare-all", "--ro-bind", str(made.root), "/", "--dev", "/dev"]

    async def said(*command: str) -> bytes:
        return await asyncio.to_thread(subprocess.check_output, [*box, *command])

    assert await said("bash", "-c", "echo {1..3} | awk '{print $2}'") == b"2\n"
    assert await said(
        "sh", "-c", r"set -eo pipefail; echo -n 1; echo '2\n3'; (false | true) || echo $0 $1", "a", "b"
    ) == (b"12\n3\na b\n")
    assert "Package: bash\nStatus: install ok installed" in (made.root / "var/lib/dpkg/status").read_text()
    assert (made.root / "etc/passwd").read_text().startswith("root:")
    assert not [path for path in made.root.rglob("*") if path.lstat().st_mode & 0o6000]


def test_a_package_of_documents_alone_still_owns_a_file(tmp_path: Path) -> None:
    for folder in ("var/lib/dpkg/info", "usr/share/doc", "usr/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/bin/tool").touch()
    control = "Package: {0}\nArchitecture: all\nVersion: 1\n"
    lists = {"empty": ["./", "./usr/", "./usr/share/doc/"], "tool": ["./usr/bin/", "./usr/bin/tool"]}
    _dpkg(tmp_path, [(control.format(name), names) for name, names in lists.items()])
    for name, owned in (("empty", "/usr/share/doc/empty/README"), ("tool", "/usr/bin/tool")):
        listed = (tmp_path / f"var/lib/dpkg/info/{name}.list").read_text().split()
        assert [path for path in listed if (tmp_path / path.lstrip("/")).is_file()] == [owned]


async def test_a_host_without_apt_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageLacking) as lacking:
        await ensure_base(Store(tmp_path / "images", max_bytes=1))
    assert "hub image add hub/base FILE" in lacking.value.hint
    assert "apt is not installed" in lacking.value.message


async def test_what_has_just_failed_is_not_tried_by_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "images", max_bytes=1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageLacking):
        await ensure_base(store)
    monkeypatch.undo()
    with pytest.raises(ImageLacking, match="apt is not installed"):
        await ensure_base(store)


def test_the_digest_is_that_of_the_packages_in_any_order() -> None:
    one, two = Package("a.deb", "1" * 64, 1), Package("b.deb", "2" * 64, 1)
    assert digest_of([one, two]) == digest_of([two, one]) != digest_of([one])


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("./usr/share/doc/x/copyright", True),
        ("./usr/share/man/man1/ls.1.gz", True),
        ("./usr/share/zoneinfo/UTC", False),
        ("./usr/lib/gcc/x86_64-linux-gnu/12/libasan.a", True),
        ("./usr/lib/gcc/x86_64-linux-gnu/12/libgcc.a", False),
        ("./usr/lib/python3.11/os.py", False),
    ],
)
def test_what_no_program_reads_is_left_out(name: str, left_out: bool) -> None:
    assert bool(UNWANTED.match(name)) == left_out
