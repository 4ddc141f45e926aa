"""What an exception shows to be lacking from outside, by the words and classes of the libraries that raise it."""

from __future__ import annotations

import os
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from envhub.protocol.registry.needs import NeedKind
from envhub.runner import load_error
from envhub.runner.needs import overheard
from envhub.runner.needs.reading import lacking, lacking_in_text
from huggingface_hub.errors import RepositoryNotFoundError

GATEWAY = "http://127.0.0.1:8000/hf"


def found(error: BaseException) -> list[tuple[str, str]]:
    return [(need.kind, need.name) for need in lacking(error)]


def made(module: str, name: str, text: str, base: type[Exception] = Exception) -> Exception:
    """An exception of a library that is not installed here."""
    return type(name, (base,), {"__module__": module})(text)


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - that is what is read
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("error", "need"),
    [
        (made("datasets.exceptions", "DatasetNotFoundError", "Dataset 'a/b' doesn't exist on the Hub or"), "a/b"),
        (made("datasets.exceptions", "DatasetNotFoundError", "Dataset 'gsm8k' doesn't exist on the Hub"), "gsm8k"),
        (ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub (LocalEntryNotFoundError)"), "openai/gsm8k"),
        (FileNotFoundError("Couldn't find any data file at hf://datasets/a/b@main/x.json"), "a/b"),
        (made("huggingface_hub.errors", "EntryNotFoundError", f"for url: {GATEWAY}/datasets/a/b/resolve/m/f"), "a/b"),
        (made("huggingface_hub.errors", "HfHubHTTPError", f"for url: {GATEWAY}/api/datasets/a/b/tree/main"), "a/b"),
        (made("huggingface_hub.errors", "HfHubHTTPError", f"for url: {GATEWAY}/api/datasets/c/revision/main"), "c"),
        (ConnectionError("Couldn't reach 'a/b/config' on the Hub (OfflineModeIsEnabled)"), "a/b"),
    ],
)  # fmt: skip
def test_a_data_set_is_named_without_its_configuration(error: Exception, need: str) -> None:
    assert found(error) == [("data_set", need)]


def test_a_real_error_of_the_hubs_client_names_the_repository_that_it_asked_for() -> None:
    for path, need in (("api/datasets/a/b/revision/main", "data_set"), ("c/d/resolve/main/config.json", "model")):
        response = httpx.Response(404, request=httpx.Request("GET", f"{GATEWAY}/{path}"))
        error = RepositoryNotFoundError("Repository Not Found", response=response)
        assert found(error) == [(need, "a/b" if need == "data_set" else "c/d")]


@pytest.mark.parametrize(
    "error",
    [
        OSError("Can't load tokenizer for 'Qwen/Qwen3-0.6B'. If you were trying to load it from the Hub, make sure"),
        OSError("Qwen/Qwen3-0.6B is not a local folder and is not a valid model identifier listed on huggingface"),
        OSError("We couldn't connect to 'http://127.0.0.1:8000/hf' to load the files. Qwen/Qwen3-0.6B is not the path "
                "to a directory containing a file named config.json. See huggingface.co/docs"),
    ],
)  # fmt: skip
def test_a_tokenizer_out_of_reach_is_a_model(error: Exception) -> None:
    assert found(error) == [("model", "Qwen/Qwen3-0.6B")]


@pytest.mark.parametrize(
    ("error", "need"),
    [
        (LookupError("\n  Resource \x1b[93mwords\x1b[0m not found.\n  Please use the NLTK Downloader"), "nltk:words"),
        (requests.ConnectionError("url: https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken "
                                  "(Temporary failure in name resolution)"), "tiktoken:cl100k_base"),
        (OSError("[E050] Can't find model 'en_core_web_sm'. It doesn't seem to be a package"), "spacy:en_core_web_sm"),
    ],
)  # fmt: skip
def test_a_corpus_is_named_with_its_library(error: Exception, need: str) -> None:
    assert found(error) == [("corpus", need)]


@pytest.mark.parametrize(
    ("error", "needs"),
    [
        (type("MissingKeyError", (ValueError,), {"keys": ["A_KEY", "B_KEY"]})("missing"), ["A_KEY", "B_KEY"]),
        (ValueError("SERPER_API_KEY environment variable is not set"), ["SERPER_API_KEY"]),
        (RuntimeError("Please provide HF_TOKEN"), ["HF_TOKEN"]),
        (AssertionError("EXA_API_KEY must be set"), ["EXA_API_KEY"]),
        (made("openai", "OpenAIError", "The api_key client option must be set either by passing api_key to the client "
              "or by setting the OPENAI_API_KEY environment variable"), ["OPENAI_API_KEY"]),
        (made("google.genai.errors", "ValueError", "Missing inputs! provide (`api_key`) or so"), ["GOOGLE_API_KEY"]),
    ],
)  # fmt: skip
def test_a_key_that_is_asked_for_is_a_secret(error: Exception, needs: list[str]) -> None:
    assert found(error) == [("secret", name) for name in needs]


def test_a_variable_of_the_environment_is_a_secret_and_a_key_of_a_table_is_not() -> None:
    assert found(raised(lambda: os.environ["NOBODY_SET_THIS"])) == [("secret", "NOBODY_SET_THIS")]
    assert found(raised(lambda: {}["NOBODY_SET_THIS"])) == []


def resolving_fails(host: object, port: object, *args: object, **kwargs: object) -> None:
    raise socket.gaierror(-3, "Temporary failure in name resolution")


@pytest.mark.parametrize(
    ("call", "need"),
    [
        (lambda: requests.get("https://files.test/raw/words.txt", timeout=5), ("file", "https://files.test/raw/words.txt")),
        (lambda: httpx.get("https://files.test/raw/words.txt"), ("file", "https://files.test/raw/words.txt")),
        (lambda: urllib.request.urlopen("https://files.test/raw/words.txt"), ("file", "https://files.test/raw/words.txt")),
        (lambda: requests.post("https://api.test/v1/search", json={}, timeout=5), ("host", "api.test:443")),
        (lambda: requests.get("https://api.test/v1/search?q=a.b", timeout=5), ("host", "api.test:443")),
        (lambda: httpx.get("http://api.test:8080/status"), ("host", "api.test:8080")),
    ],
)  # fmt: skip
def test_what_no_name_could_be_resolved_for_is_a_file_or_a_host(
    call: Callable[[], Any], need: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolving_fails)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert found(raised(call)) == [need]


async def test_the_url_of_an_aiohttp_request_is_read_from_its_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolving_fails)
    async with aiohttp.ClientSession() as session:
        for method, need in (("GET", ("file", "https://files.test/a.txt")), ("POST", ("host", "files.test:443"))):
            with pytest.raises(aiohttp.ClientConnectorError) as caught:
                await session.request(method, "https://files.test/a.txt")
            assert found(caught.value) == [need]


def test_rows_that_datasets_would_fetch_from_an_address_are_a_file() -> None:
    error = FileNotFoundError("Unable to find 'https://files.test/rows.jsonl'")
    assert found(error) == [("file", "https://files.test/rows.jsonl")]


def test_a_bare_host_is_read_from_the_frame_that_resolved_it() -> None:
    assert found(raised(lambda: socket.create_connection(("nobody.invalid", 8443)))) == [
        ("host", "nobody.invalid:8443")
    ]


def test_what_the_box_itself_serves_is_no_host() -> None:
    assert found(raised(lambda: requests.get("http://127.0.0.1:9/x.txt", timeout=5))) == []


@pytest.mark.parametrize(
    "error",
    [
        made("prime_sandboxes.core.client", "APIError", "HTTP 404: no such route"),
        made("verifiers.errors", "SandboxCreationError", "Failed"),
        made("docker.errors", "DockerException", "Error while fetching server API version"),
        RuntimeError("Cannot connect to the Docker daemon at unix:///var/run/docker.sock"),
    ],
)
def test_a_sandbox_service_that_is_not_there_is_a_sandbox(error: Exception) -> None:
    assert found(error) == [("sandbox", "*")]


def test_a_program_that_the_box_has_not_is_named_and_a_container_engine_is_a_sandbox() -> None:
    assert found(raised(lambda: subprocess.run(["java-of-nobody"], check=True))) == [("program", "java-of-nobody")]
    for text in ("java not found in PATH", "`java` executable not found. Install it", "/bin/sh: 1: java: not found"):
        assert found(RuntimeError(text)) == [("program", "java")]
    missing = raised(lambda: subprocess.run(["podman"], check=True, env={"PATH": "/nowhere"}))
    assert found(missing) == [("sandbox", "*")]


def test_a_package_that_npms_registry_has_not_is_named() -> None:
    version = "npm error notarget No matching version found for pi-acp@0.0.33.\nnpm error notarget In most cases"
    package = "npm error 404 Not Found - GET http://127.0.0.1:8000/npm\n404  '@a/b@*' is not in this registry."
    assert found(RuntimeError(version)) == [("program", "npm:pi-acp@0.0.33")]
    assert found(RuntimeError(package)) == [("program", "npm:@a/b@*")]


def test_an_engine_says_what_image_it_has_not_and_what_it_does_not_offer() -> None:
    image = '404 Client Error for http+docker://localhost/v1.43/start: Not Found ("No such image: ghcr.io/a/b:1: none")'
    assert found(made("docker.errors", "ImageNotFound", image)) == [("sandbox", "ghcr.io/a/b:1")]
    refused = "501 Server Error for http+docker://localhost: Not Implemented (containers of this hub see no folders)"
    assert found(made("docker.errors", "APIError", refused)) == []
    absent = "Error while fetching server API version: ('Connection aborted.', FileNotFoundError(2, 'No such file'))"
    assert found(made("docker.errors", "DockerException", absent)) == [("sandbox", "*")]


def test_a_browser_that_playwright_would_have_fetched_is_named() -> None:
    path = "/box/.cache/ms-playwright/chromium_headless_shell-1255/chrome-headless-shell-linux64/chrome-headless-shell"
    said = f"BrowserType.launch: Executable doesn't exist at {path}\n╔═══╗\n║ playwright install ║"
    assert found(RuntimeError(said)) == [("program", "playwright:chromium_headless_shell-1255")]


@pytest.mark.parametrize("text", ["Found no NVIDIA driver on your system.", "Torch not compiled with CUDA enabled"])
def test_cuda_is_a_gpu(text: str) -> None:
    assert found(RuntimeError(text)) == [("gpu", "*")]


def test_a_host_with_too_few_open_files_is_no_fault_of_the_package() -> None:
    text = "RLIMIT_NOFILE is 1024, too few for many sandboxes. Raise it to at least 65536"
    assert found(RuntimeError(text)) == [("open_files", "65536")]
    assert found(OSError("set ulimit -n higher")) == [("open_files", "65536")]


def test_what_a_package_wraps_prints_or_raises_from_none_is_found_all_the_same() -> None:
    def wrapped() -> None:
        try:
            raise ValueError("A_KEY is not set")
        except ValueError:
            raise RuntimeError("failed to load") from None

    def exits() -> None:
        try:
            wrapped()
        except RuntimeError:
            raise SystemExit(1)  # noqa: B904

    assert found(raised(exits)) == [("secret", "A_KEY")]
    assert found(ExceptionGroup("several", [RuntimeError("x"), ValueError("B_KEY is required")])) == [
        ("secret", "B_KEY")
    ]


def test_an_error_that_is_only_text_is_read_from_its_traceback() -> None:
    trace = (
        'Traceback:\n  File "x", line 1\nprime_sandboxes.core.client.APIError: HTTP 401\n\nTaskError: setup failed\n'
    )
    assert [need.kind for need in lacking_in_text("TaskError", "setup failed", trace)] == ["sandbox"]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("the answer is not a number"),
        KeyError("question"),
        FileNotFoundError(2, "No such file or directory", "data/rows.json"),
        ModuleNotFoundError("No module named 'torch'"),
        TimeoutError("timed out"),
        RuntimeError("column prompt is missing"),
    ],
)
def test_what_is_the_packages_own_fault_needs_nothing(error: Exception) -> None:
    assert found(error) == []


def test_every_kind_that_the_runner_finds_has_words() -> None:
    found_by_the_worker = {NeedKind.JUDGE.value, NeedKind.GIT_HOST.value, NeedKind.CLONE_HOST.value}
    assert {kind.value for kind in NeedKind} - found_by_the_worker <= load_error._WORDS.keys()


def test_a_variable_that_is_named_like_no_key_is_needed_if_it_was_looked_for() -> None:
    message = "please set SELLER_MODEL, for instance to OTHER_MODEL"
    assert found(ValueError(message)) == []
    with overheard.listening():
        os.environ.get("SELLER_MODEL")
        assert found(ValueError(message)) == [("secret", "SELLER_MODEL")]
        assert found(ValueError("SELLER_MODEL is fine")) == []
