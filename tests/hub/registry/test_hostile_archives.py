"""Packages that attack: each is refused with a reason and leaves nothing behind."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from dataclasses import replace

import pytest

from hub.core.errors import HubError
from hub.registry.models import Environment, Version
from tests.factories.accounts import make_user
from tests.factories.packages import metadata_text, tar_bytes, zip_bytes
from tests.factories.registry import Pair, build_pair, push_pair

pytestmark = pytest.mark.django_db

INFO = "tiny_env-0.1.0.dist-info"
ROOT = "tiny_env-0.1.0"
WHEEL = {
    f"{INFO}/METADATA": metadata_text("tiny-env", "0.1.0"),
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\n",
    "tiny_env.py": "",
}
SDIST = {f"{ROOT}/PKG-INFO": metadata_text("tiny-env", "0.1.0"), f"{ROOT}/pyproject.toml": "[project]\n"}


def refusal(pair: Pair) -> HubError:
    with pytest.raises(HubError) as caught:
        push_pair(make_user(), pair)
    assert not Environment.objects.exists()
    assert not Version.objects.exists()
    return caught.value


def wheel(members: dict[str, str], **kwargs: dict[str, int]) -> Pair:
    listed = {f"{INFO}/RECORD": "".join(f'"{path}",,\n' for path in WHEEL | members)}
    return replace(build_pair(), wheel=zip_bytes(WHEEL | listed | members, **kwargs))  # type: ignore[arg-type]


def sdist(members: dict[str, str], *extra: tarfile.TarInfo) -> Pair:
    return replace(build_pair(), sdist=tar_bytes(SDIST | members, extra=extra))


def tar_member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(f"{ROOT}/{name}")
    info.type, info.linkname = kind, target
    return info


def zeros(count: int) -> bytes:
    """A gzip stream of zero bytes, made without holding them."""
    packer, out = zlib.compressobj(9, zlib.DEFLATED, 31), io.BytesIO()
    for _ in range(count // (1 << 20)):
        out.write(packer.compress(b"\0" * (1 << 20)))
    return out.getvalue() + packer.flush()


def test_the_harmless_pair_that_these_are_made_from_is_accepted() -> None:
    harmless = replace(wheel({}), sdist=sdist({}).sdist)
    assert push_pair(make_user(), harmless).created


LEAVING = ["../evil.py", "a/../../evil.py", "/etc/cron.d/x", "C:/x.py", "a\\..\\b.py", "a\u202eb.py"]


@pytest.mark.parametrize("name", LEAVING)
def test_a_path_that_leaves_its_root_is_refused(name: str) -> None:
    assert refusal(wheel({name: "x"})).code == "unsafe_path"
    member = name if name.startswith(("/", "C:")) else f"{ROOT}/{name}"
    assert refusal(sdist({member: "x"})).code == "unsafe_path"


def test_links_are_refused() -> None:
    assert refusal(wheel({"link": "/etc/passwd"}, modes={"link": 0o120777})).code == "unsafe_member"
    assert refusal(sdist({}, tar_member("link", tarfile.SYMTYPE, "/etc/passwd"))).code == "unsafe_member"
    assert refusal(sdist({}, tar_member("hard", tarfile.LNKTYPE, f"{ROOT}/PKG-INFO"))).code == "unsafe_member"


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(kind: bytes) -> None:
    assert refusal(sdist({}, tar_member("device", kind))).code == "unsafe_member"


def test_a_zip_bomb_is_refused() -> None:
    assert refusal(wheel({"bomb.bin": "0" * (64 << 20)})).code == "archive_bomb"


def test_a_tar_bomb_is_refused_before_it_is_unpacked() -> None:
    info = tarfile.TarInfo(f"{ROOT}/bomb")
    info.size = 2 << 30
    head = gzip.compress(info.tobuf())
    bomb = replace(build_pair(), sdist=head + zeros(64 << 20))
    assert refusal(bomb).code in {"too_large", "archive_bomb", "broken_archive"}


def test_too_many_files_are_refused() -> None:
    assert refusal(wheel({f"f{n}": "" for n in range(20_001)})).code == "too_many_files"


def test_two_members_of_one_name_are_refused() -> None:
    assert refusal(wheel({"Tiny_env.py": "evil"})).code == "duplicate_path"


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"not an archive"])
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    pair = replace(build_pair(), wheel=data or b"\0")
    assert refusal(pair).status == 422


@pytest.mark.parametrize("name", [".env", "keys/id_rsa", "server.pem", ".aws/credentials", "credentials.json"])
def test_secret_files_are_refused_by_name(name: str) -> None:
    error = refusal(build_pair(files={name: "TOKEN=1"}))
    assert error.code == "secret_files"
    assert name in error.message


DIRECT = ["evil @ file:///etc/passwd", "evil @ git+ssh://git@example.org/x", "evil @ git+https://me:key@example.org/x"]


@pytest.mark.parametrize("requirement", DIRECT)
def test_an_unusable_reference_in_the_metadata_is_refused(requirement: str) -> None:
    assert refusal(build_pair(requires=[requirement])).code == "direct_reference"


@pytest.mark.parametrize("requirement", DIRECT)
def test_an_unusable_reference_of_an_extra_is_refused(requirement: str) -> None:
    metadata = metadata_text("tiny-env", "0.1.0", requires=[f"{requirement} ; extra == 'all'"])
    assert refusal(wheel({f"{INFO}/METADATA": metadata})).code == "direct_reference"


@pytest.mark.parametrize(
    "table",
    [
        '[project]\ndependencies = ["{}"]',
        '[project.optional-dependencies]\nall = ["{}"]',
    ],
)
def test_an_unusable_reference_in_the_sources_is_refused(table: str) -> None:
    assert refusal(build_pair(pyproject=table.format(DIRECT[0]))).code == "direct_reference"


GROUPS = '[dependency-groups]\ndev = ["pytest", {{include-group = "lint"}}, "{}"]\nlint = ["ruff"]\n'


@pytest.mark.parametrize("requirement", [*DIRECT[:2], "evil @ git+https://example.org/x@main", "not a requirement!"])
def test_a_dependency_group_may_name_anything_since_nothing_installs_it(requirement: str) -> None:
    push_pair(make_user(), build_pair(pyproject=GROUPS.format(requirement)))


@pytest.mark.parametrize("login", ["https://me:key@", "https://token@", "ssh://git:key@"])
def test_credentials_in_a_dependency_group_are_refused(login: str) -> None:
    found = refusal(build_pair(pyproject=GROUPS.format(f"evil @ git+{login}example.org/x")))
    assert (found.code, "credentials" in found.message) == ("direct_reference", True)


def test_what_makes_the_wheel_comes_from_the_index_alone() -> None:
    pyproject = '[build-system]\nrequires = ["hatchling @ git+https://example.org/x"]'
    assert refusal(build_pair(pyproject=pyproject)).code == "direct_reference"


def test_a_repository_is_a_dependency_like_any_other() -> None:
    line = "lib @ git+https://example.org/x@main#subdirectory=inner"
    assert push_pair(make_user(), build_pair(requires=[line])).version.dependencies == [line]


@pytest.mark.parametrize(
    "name",
    [
        "tiny_env-0.1.0.data/data/etc/profile.d/x.sh",
        "tiny_env-0.1.0.data/scripts/python3",
        "tiny_env-0.1.0.data/scripts/activate.fish",
        "pyvenv.cfg",
        "sub/pyvenv.cfg",
        "sitecustomize.py",
    ],
)
def test_a_wheel_that_would_change_its_installation_is_refused(name: str) -> None:
    assert refusal(wheel({name: "x"})).code == "dangerous_wheel"


def test_a_console_script_that_shadows_the_interpreter_is_refused() -> None:
    entry_points = "[console_scripts]\npython3 = tiny_env:main\n"
    assert refusal(wheel({f"{INFO}/entry_points.txt": entry_points})).code == "dangerous_wheel"


def test_metadata_of_another_package_is_refused() -> None:
    assert refusal(wheel({f"{INFO}/METADATA": metadata_text("numpy", "0.1.0")})).code == "metadata_mismatch"
    assert refusal(sdist({f"{ROOT}/PKG-INFO": metadata_text("tiny-env", "9.0")})).code == "metadata_mismatch"


def test_a_package_without_code_is_refused() -> None:
    members = {name: content for name, content in WHEEL.items() if name != "tiny_env.py"}
    listed = {f"{INFO}/RECORD": "".join(f"{path},,\n" for path in members)}
    assert refusal(replace(build_pair(), wheel=zip_bytes(members | listed))).code == "no_module"


def test_a_wheel_that_no_installer_would_take_is_refused() -> None:
    assert refusal(replace(build_pair(), wheel=zip_bytes(WHEEL))).code == "bad_record"
    assert refusal(wheel({f"{INFO}/RECORD": "tiny_env.py,sha256=AAAA,0\n"})).code == "bad_record"


def test_harmless_spellings_and_links_are_taken_and_shown_in_their_one_spelling() -> None:
    link = tar_member("CLAUDE.md", tarfile.SYMTYPE, "AGENTS.md")
    pair = replace(wheel({"./NOTES.md": "x"}), sdist=tar_bytes(SDIST | {f"./{ROOT}//AGENTS.md": "x"}, extra=[link]))
    version = push_pair(make_user(), pair).version
    assert [path for path, _ in version.files] == ["PKG-INFO", "pyproject.toml", "AGENTS.md"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a finalizer may run at that depth
@pytest.mark.parametrize(
    "toml",
    [
        "[[[",
        "x = " + "[" * 100_000,
        "x = " + "9" * 100_000,
        "[tool.envhub]\nx = nan",
        "[tool.envhub]\nx = '" + "a" * 70_000 + "'",
    ],
    ids=["broken", "deep", "digits", "nan", "large"],
)
def test_a_pyproject_that_would_break_its_reader_is_refused(toml: str) -> None:
    assert refusal(build_pair(pyproject=toml)).status == 422


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a finalizer may run at that depth
@pytest.mark.parametrize("source", ["(" * 100_000, "x = " + "-" * 100_000 + "1", "\0", "def (", "é" * 100])
def test_source_that_cannot_be_parsed_is_unclassified_and_kept(source: str) -> None:
    version = push_pair(make_user(), build_pair(source=source)).version
    assert version.evidence is not None
    assert version.evidence["generation"] is None


def test_characters_that_a_database_cannot_hold_do_no_harm() -> None:
    metadata = metadata_text("tiny-env", "0.1.0", readme="a\0b \ud83d".encode("utf-8", "replace").decode())
    version = push_pair(make_user(), wheel({f"{INFO}/METADATA": metadata})).version
    assert version.readme.startswith("ab")
