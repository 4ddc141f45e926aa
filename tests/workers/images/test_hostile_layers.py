"""Whatever lies in an image's layers, nothing is written outside of its root, and nothing in it is special."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from tests.factories.tar_bombs import BOMBS
from tests.workers.images.archives import Member, layer, link, special
from workers.images import archives
from workers.images.archives import TarFiles
from workers.images.errors import BadImage
from workers.images.layers import Layer
from workers.images.settle import DIRECTORIES, FILES, settle
from workers.images.streams import MIB, Budget
from workers.images.tree import Tree


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the host that must stay as it is."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("untouched")
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def apply(root: Path, *layers: bytes, budget: Budget | None = None) -> None:
    with Tree(root) as tree:
        for one in layers:
            Layer(tree, budget or Budget(packed=len(one))).apply(io.BytesIO(one))


def unharmed(outside: Path) -> bool:
    return [path.name for path in outside.iterdir()] == ["file"] and (outside / "file").read_text() == "untouched"


UP = "../outside"


@pytest.mark.parametrize(
    "members",
    [
        (link("a", UP), ("a/new", "x")),
        (link("a", "../../../../../../../../OUTSIDE"), ("a/new", "x")),
        (link("a", "OUTSIDE"), ("a/new", "x")),
        (link("a", "OUTSIDE"), ("a/file", "x")),
        (link("a", "OUTSIDE"), ("a/.wh.file", "")),
        (link("a", "OUTSIDE"), ("a/.wh..wh..opq", "")),
        (link("a", "OUTSIDE/file"), ("a", "x")),
        (link("a", "b"), link("b", "OUTSIDE"), ("a/new", "x")),
        (("d", None), link("d/up", ".."), link("d/l", "up/../OUTSIDE"), ("d/l/new", "x")),
        (("OUTSIDE/file", "x"),),
        (("OUTSIDE/new", "x"),),
        (link("a", "/proc/self/root/OUTSIDE"), ("a/new", "x")),
        (link("a", "/proc/self/cwd"), ("a/new", "x")),
    ],
)
def test_links_lead_nowhere_but_into_the_root(root: Path, outside: Path, members: tuple[Member, ...]) -> None:
    def real(text: str) -> str:
        return text.replace("OUTSIDE", str(outside))

    for member in members:
        if isinstance(member, tarfile.TarInfo):
            member.linkname = real(member.linkname)
    renamed = [one if isinstance(one, tarfile.TarInfo) else (real(one[0]), one[1]) for one in members]
    with contextlib.suppress(BadImage):
        apply(root, layer(*renamed))
    assert unharmed(outside)


@pytest.mark.parametrize(
    "members",
    [
        (("../outside/new", "x"),),
        (("a/../../outside/new", "x"),),
        (("..", "x"),),
        (link("a", "../outside/file", hard=True),),
        (link("l", "OUTSIDE/file"), link("a", "nowhere/file", hard=True)),
        ((".wh...", ""),),
        ((".wh.", ""),),
        (("f", "x"), ("f/below", "x")),
        (link("loop", "loop"), ("loop/x", "x")),
        (("x" * 300, "x"),),
    ],
)
def test_what_makes_no_sense_is_refused(root: Path, outside: Path, members: tuple[Member, ...]) -> None:
    with pytest.raises(BadImage):
        apply(root, layer(*members))
    assert unharmed(outside)


def test_a_hard_link_to_a_link_shares_the_link_not_its_target(root: Path, outside: Path) -> None:
    apply(root, layer(link("l", str(outside / "file")), link("h", "l", hard=True)), layer(("h", "new")))
    assert (root / "h").read_text() == "new"
    assert unharmed(outside)


def test_a_file_over_a_hard_link_leaves_its_twin_alone(root: Path) -> None:
    apply(root, layer(("a", "old"), link("b", "a", hard=True)), layer(("b", "new")))
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("old", "new")


def test_set_user_id_bits_are_dropped_and_special_files_left_out(root: Path) -> None:
    kinds = [special("null", tarfile.CHRTYPE), special("disk", tarfile.BLKTYPE), special("pipe", tarfile.FIFOTYPE)]
    apply(root, layer(("su", "x"), *kinds, mode=0o6755))
    assert sorted(os.listdir(root)) == ["su"]
    found = (root / "su").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_mtime) == (0o755, os.geteuid(), 1_000_000_000)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(max_bytes=MIB, packed=10 * MIB), "more than 1 MB"),
        (Budget(max_files=3, packed=10 * MIB), "more than 3 files"),
        (Budget(packed=1000), "times its size"),
    ],
)
def test_budgets_end_it(root: Path, budget: Budget, said: str) -> None:
    content = [(f"f{number}", bytes(20 * MIB if budget.packed == 1000 else MIB)) for number in range(4)]
    with pytest.raises(BadImage, match=said):
        apply(root, layer(*content), budget=budget)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_header_that_would_take_much_memory_is_refused(root: Path, bomb: str) -> None:
    with pytest.raises(BadImage, match=r"too large|is sparse"):
        apply(root, BOMBS[bomb])


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_index_of_an_image_refuses_it_too(tmp_path: Path, bomb: str) -> None:
    (tmp_path / "image.tar").write_bytes(BOMBS[bomb])
    with pytest.raises(tarfile.ReadError, match=r"too large|is sparse"):
        TarFiles(tmp_path / "image.tar", Budget(packed=MIB))


def test_the_index_of_an_image_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_PARTS", 3)
    (tmp_path / "image.tar").write_bytes(layer(*((f"f{number}", "x") for number in range(4))))
    with pytest.raises(BadImage, match="more than 3 files"):
        TarFiles(tmp_path / "image.tar", Budget(packed=MIB))


def test_a_header_of_a_gigabyte_is_not_read(root: Path) -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1024 * MIB
    with pytest.raises(BadImage, match="too large"):
        apply(root, info.tobuf(tarfile.USTAR_FORMAT) + bytes(8 * MIB))


def test_no_tree_is_deeper_than_what_walks_it(root: Path) -> None:
    deep = "/".join(["d"] * 100)
    with pytest.raises(BadImage, match="nested too deeply"):
        apply(root, layer((f"{deep}/f", "x"), link("s", deep), (f"s/{deep}/f", "x")))


@pytest.mark.parametrize("broken", [b"x" * 1024, layer(("a", "x" * 5000))[:2000]])
def test_a_broken_archive_is_told(root: Path, broken: bytes) -> None:
    with pytest.raises(BadImage, match=r"broken|early"):
        apply(root, broken)


def test_mount_points_are_real_whatever_the_image_has(root: Path, outside: Path) -> None:
    links = [link(name, str(outside)) for name in DIRECTORIES if "/" not in name]
    apply(root, layer(*links))
    with Tree(root) as tree:
        settle(tree)
    assert all((root / name).is_dir() and not (root / name).is_symlink() for name in DIRECTORIES)
    assert all((root / name).is_file() and not (root / name).is_symlink() for name in FILES)
    assert unharmed(outside)


@pytest.mark.parametrize(
    "evil", [link("run/envhub", "/oldroot/var/tmp"), link("run/envhub/agent.py", "/oldroot/x"), ("run/envhub", "")]
)
def test_nothing_of_the_image_lies_where_a_box_puts_its_own_programs(root: Path, evil: Member) -> None:
    apply(root, layer(evil))
    with Tree(root) as tree:
        settle(tree)
    assert not (root / "run/envhub").is_symlink()
    assert list((root / "run/envhub").iterdir()) == []


def test_files_of_the_image_at_mount_points_stay(root: Path) -> None:
    apply(root, layer(("etc/passwd", "me:x:0:0::/root:/bin/sh\n"), link("etc/resolv.conf", "/run/stub")))
    with Tree(root) as tree:
        settle(tree)
    assert (root / "etc/passwd").read_text().startswith("me:")
    assert not (root / "etc/resolv.conf").is_symlink()
