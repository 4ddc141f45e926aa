"""verifiers' files of endpoints become models; variants get their URLs and headers."""

from __future__ import annotations

import pytest
from envhub.client.outside.endpoints import endpoint_headers, endpoint_url, model_name, read_endpoints
from envhub.errors import UsageError
from envhub.protocol.models.catalog import EndpointKind, TargetVariant

TWO_VARIANTS = """
[[endpoint]]
endpoint_id = "Qwen/Qwen3.5-4B"
model = "qwen"
url = "https://a.example/v1"
key = "A_KEY"

[[endpoint]]
endpoint_id = "Qwen/Qwen3.5-4B"
model = "qwen"
api_base_url = "https://b.example/v1"
api_key_var = "UNSET"
extra_headers = { "X-Team" = "rl" }

[[endpoint]]
endpoint_id = "claude"
model = "claude-x"
url = "https://api.anthropic.com"
key = "A_KEY"
type = "anthropic_messages"
"""


def test_entries_of_one_id_become_variants_of_one_model() -> None:
    first, second = read_endpoints(TWO_VARIANTS, {"A_KEY": "secret"})
    assert (first.name, [v.base_url for v in first.variants]) == (
        "qwen-qwen3.5-4b",
        ["https://a.example/v1", "https://b.example/v1"],
    )
    assert [v.api_key for v in first.variants] == ["secret", None]
    assert first.variants[1].headers == {"X-Team": "rl"}
    assert (second.name, second.variants[0].kind) == ("claude", EndpointKind.ANTHROPIC)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[endpoint]]\nmodel='m'\nurl='u'\nkey='k'", "endpoint_id missing"),
        ("[[endpoint]]\nendpoint_id='e'\nmodel='m'\nkey='k'", "url missing"),
        ("[[endpoint]]\nendpoint_id='e'\nmodel='m'\nurl='u'\nkey='k'\ntyp='x'", "unknown key 'typ'"),
        ("[[endpoint]]\nendpoint_id='e'\nmodel='m'\nurl='u'\napi_base_url='v'\nkey='k'", "differ"),
        ("[[endpoint]]\nendpoint_id='e'\nmodel=1\nurl='http://u/v1'\nkey='k'", "model"),
        ("endpoint = 3", "expected"),
        ("[[endpoints]]\nid='e'\nmodels=['m']", "names no endpoint"),
        ("[[", "endpoints.toml"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_endpoints(text, {})


def test_one_table_for_each_endpoint_is_understood() -> None:
    text = "[haiku]\nmodel = 'claude'\nurl = 'https://a.example/v1'\nkey = 'A_KEY'"
    (model,) = read_endpoints(text, {"A_KEY": "secret"})
    assert (model.name, model.variants[0].model, model.variants[0].api_key) == ("haiku", "claude", "secret")


PYTHON = """
import os
ENDPOINTS = {
    "local": {"model": "qwen", "url": os.getenv("LOCAL_URL", "http://localhost:8001/v1"), "key": "A_KEY"},
    "other": {"model": "m", "url": os.environ["OTHER_URL"], "key": "UNSET"},
}
"""


def test_a_python_file_is_read_and_never_run() -> None:
    environ = {"A_KEY": "secret", "OTHER_URL": "https://b.example/v1"}
    local, other = read_endpoints(PYTHON, environ, is_python=True)
    assert (local.name, local.variants[0].base_url, local.variants[0].api_key) == (
        "local",
        "http://localhost:8001/v1",
        "secret",
    )
    assert (other.variants[0].base_url, other.variants[0].api_key) == ("https://b.example/v1", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ENDPOINTS = {'a': make()}", "line 1: this is computed"),
        ("ENDPOINTS = {**others}", "this is computed"),
        ("ENDPOINTS = {'a': {'model': 'm', 'key': 'k'}}", "url missing"),
        ("OTHERS = {}", "names no endpoint"),
        ("ENDPOINTS: dict = []", "this is computed"),
        ("ENDPOINTS = (", "endpoints.py"),
    ],
)
def test_a_wrong_python_file_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_endpoints(text, {}, is_python=True)


def test_a_model_name_keeps_what_it_can() -> None:
    assert model_name("GPT-4.1 mini!") == "gpt-4.1-mini"


@pytest.mark.parametrize("base", ["https://api.anthropic.com", "https://api.anthropic.com/v1/"])
def test_an_anthropic_base_url_may_end_in_v1_or_not(base: str) -> None:
    variant = TargetVariant(kind=EndpointKind.ANTHROPIC, base_url=base, model="m", api_key="k")
    assert endpoint_url(variant, "messages") == "https://api.anthropic.com/v1/messages"
    assert endpoint_headers(variant)["x-api-key"] == "k"


def test_an_openai_variant_sends_its_key_as_a_bearer_token() -> None:
    variant = TargetVariant(kind=EndpointKind.OPENAI, base_url="https://a.example/v1/", model="m", api_key="k")
    assert endpoint_url(variant, "chat/completions") == "https://a.example/v1/chat/completions"
    assert endpoint_headers(variant) == {"authorization": "Bearer k"}


def test_a_query_of_the_base_url_stays_behind_the_path() -> None:
    variant = TargetVariant(kind=EndpointKind.OPENAI, base_url="https://a.example/openai/v1/?api-version=1", model="m")
    assert endpoint_url(variant, "chat/completions") == "https://a.example/openai/v1/chat/completions?api-version=1"
    assert endpoint_url(variant, "tokenize", at_root=True) == "https://a.example/openai/tokenize?api-version=1"
