"""Real clients, unchanged, in a real box without a network: what they fetch when they load is what the hub keeps."""

from __future__ import annotations

import base64
import hashlib
import io
import socket
import tempfile
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from envhub.protocol.registry.files import FileKind, FileRequest

from hub.accounts.models import User
from hub.data.files import add_file
from tests.factories.accounts import make_token, make_user
from tests.factories.storage import make_blob
from tests.fakes.files import FileServer
from tests.workers.rollouts.outside_box import OutsideBox, outside_box
from workers.sandbox import backend

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sandbox]
URL = "https://raw.githubusercontent.com/someone/words/main/words.txt"
WORDS = """
import nltk
print(nltk.download("words"), nltk.download("words"))
from nltk.corpus import words
print(list(words.words()))
"""
TAGGER = """
import nltk
print(nltk.download("punkt_tab", quiet=True))
print(nltk.data.find("tokenizers/punkt_tab").path.endswith("tokenizers/punkt_tab"))
"""
CL100K = """
import tiktoken, tiktoken_ext.openai_public as public

public.ENCODING_CONSTRUCTORS["cl100k_base"] = lambda: {
    "name": "cl100k_base", "pat_str": ".+", "special_tokens": {},
    "mergeable_ranks": tiktoken.load.load_tiktoken_bpe(
        "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken", expected_hash="HASH"),
}
print(tiktoken.get_encoding("cl100k_base").encode("ba"))
"""


def keep(user: User, kind: FileKind, name: str, content: bytes) -> None:
    """As `hub data add` does."""
    blob = make_blob(content)
    add_file(request=FileRequest(kind=kind, name=name, sha256=blob.sha256, size=blob.size), by=user)


def package(name: str, **files: str) -> bytes:
    """An NLTK package."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{name}/"), b"")
        for path, text in files.items():
            archive.writestr(f"{name}/{path}", text)
    return out.getvalue()


@pytest.fixture
def user() -> User:
    return make_user()


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="of-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
async def box(served: str, root: Path, user: User, token: str) -> AsyncIterator[OutsideBox]:
    async with outside_box(backend("bwrap", root), root, served, {"Authorization": f"Bearer {token}"}) as opened:
        yield opened


@pytest.fixture
def token(user: User) -> str:
    return make_token(user)


@pytest.fixture
def words(user: User) -> None:
    keep(user, "file", URL, "größe\nzwei\n".encode())


@pytest.fixture
def corpora(user: User) -> None:
    keep(user, "nltk", "words", package("words", README="r", en="one\ntwo\n", **{"en-basic": "one\n"}))
    keep(user, "nltk", "punkt_tab", package("punkt_tab", README="r"))


RANKS = b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate([b"a", b"b", b"ba"]))


@pytest.fixture
def encoding(user: User) -> None:
    keep(user, "tiktoken", "cl100k_base", RANKS)


@pytest.mark.usefixtures("words")
async def test_requests_gets_a_file_added_by_hand(box: OutsideBox) -> None:
    code = "import requests, sys; r = requests.get(sys.argv[1]); print(r.status_code, ascii(r.text), r.headers)"
    read = await box.python(code, URL)
    assert read.stdout.startswith(rb"200 'gr\xf6\xdfe\nzwei\n' "), read.stderr[-2000:]
    assert b"text/plain; charset=utf-8" in read.stdout


@pytest.mark.usefixtures("corpora")
async def test_nltk_downloads_its_packages_by_the_hubs_index(box: OutsideBox) -> None:
    read = await box.python(WORDS)
    assert read.stdout.split(b"\n")[:2] == [b"True True", b"['one', 'two', 'one']"], read.stdout + read.stderr[-2000:]
    assert b"already up-to-date" in read.stderr
    found = await box.python(TAGGER)
    assert found.stdout == b"True\nTrue\n", found.stdout + found.stderr[-2000:]


@pytest.mark.usefixtures("corpora")
async def test_a_package_that_the_hub_lacks_is_looked_up_in_vain(box: OutsideBox) -> None:
    code = "import nltk; print(nltk.download('wordnet')); nltk.data.find('corpora/wordnet')"
    read = await box.python(code)
    assert read.stdout == b"False\n"
    assert b"LookupError" in read.stderr
    assert b"Package 'wordnet' not found" in read.stderr


@pytest.mark.usefixtures("encoding")
async def test_tiktoken_loads_an_encoding(box: OutsideBox) -> None:
    read = await box.python(CL100K.replace("HASH", hashlib.sha256(RANKS).hexdigest()))
    assert read.stdout == b"[2]\n", read.stderr[-2000:]


async def test_what_is_not_kept_is_told_with_its_command(box: OutsideBox) -> None:
    read = await box.python("import tiktoken; tiktoken.get_encoding('o200k_base')")
    assert read.exit_code == 1
    assert "hub data add o200k_base FILE --kind tiktoken   (administrators" in box.said[0]


LACKING = """
import sys
from envhub_runner.needs.reading import lacking
try:
    exec(sys.argv[1])
except BaseException as error:
    print([(need.kind, need.name) for need in lacking(error)])
"""
ENCODING = "tiktoken:o200k_base"


@pytest.mark.parametrize(
    ("code", "need"),
    [
        (f"import requests; requests.get('{URL}')", ("file", URL)),
        (f"import httpx; httpx.get('{URL}?raw=true')", ("file", f"{URL}?raw=true")),
        (f"import urllib.request; urllib.request.urlopen('{URL}')", ("file", URL)),
        (f"import datasets; datasets.load_dataset('csv', data_files='{URL}')", ("file", URL)),
        ("import requests; requests.post('https://api.test/v1/search', json={})", ("host", "api.test:443")),
        ("import httpx; httpx.get('http://api.test:8080/status')", ("host", "api.test:8080")),
        ("import tiktoken; tiktoken.get_encoding('o200k_base')", ("corpus", ENCODING)),
        ("import nltk; nltk.download('words'); nltk.data.find('corpora/words')", ("corpus", "nltk:words")),
        ("import nltk; nltk.download('words', raise_on_error=True)", ("corpus", "nltk:words")),
    ],
)
async def test_what_is_lacking_is_a_need_with_its_name(box: OutsideBox, code: str, need: tuple[str, str]) -> None:
    read = await box.python(LACKING, code)
    assert read.stdout.decode().splitlines()[-1:] == [str([need])], read.stdout + read.stderr[-1500:]


async def test_a_provider_that_code_names_itself_is_still_a_judge(box: OutsideBox) -> None:
    code = """
import httpx, sys
from envhub_runner.judge_calls import lead_judge_calls
lead_judge_calls(sys.argv[1] + "/judge")
print(httpx.post("https://api.openai.com/v1/chat/completions", json={"model": "gpt-4.1", "messages": []}).status_code)
"""
    read = await box.python(code, box.box.gateway_url)
    assert read.stdout == b"404\n", read.stderr[-1500:]
    assert list(box.interceptor.judges_lacking) == ["gpt-4.1"]
    assert not box.interceptor.files_lacking


async def test_a_file_of_an_allowed_host_is_fetched_for_the_first_box_and_the_same_ever_after(
    box: OutsideBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import requests, sys; r = requests.get(sys.argv[1]); print(r.text, r.headers['content-type'])"
    with FileServer({"/words.txt": b"one"}) as source:
        place = source.place.replace("127.0.0.1", "files.test")
        monkeypatch.setattr(socket, "getaddrinfo", partial(resolve_files_test, socket.getaddrinfo))
        update = {"file_hosts": [place], "outbound_allow": [place]}
        monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update=update))
        first = await box.python(code, f"http://{place}/words.txt")
        source.files["/words.txt"] = b"another"
        second = await box.python(code, f"http://{place}/words.txt")
    third = await box.python(code, f"http://{place}/words.txt")
    assert first.stdout == b"one text/x-words; charset=utf-8\n", first.stderr[-1500:] + str(box.said).encode()
    assert first.stdout == second.stdout == third.stdout
    assert source.asked == ["/words.txt"]


def resolve_files_test(resolve: Callable[..., Any], host: Any, *arguments: Any, **options: Any) -> Any:
    """A resolver that knows the test's host."""
    return resolve("127.0.0.1" if host == "files.test" else host, *arguments, **options)
