from __future__ import annotations

from pathlib import Path

from django.utils import timezone

from hub.accounts.models import Owner
from hub.catalog.models import ModelFile
from hub.runs.models import OwnerModelUsage
from tests.envhub.cli.conftest import Cli


def test_secrets_go_in_by_standard_input_and_never_come_out(cli: Cli) -> None:
    result = cli("secret", "set", "MY_KEY", stdin="very-secret\n")
    assert "very-secret" not in result.output
    (listed,) = cli.json("secret", "list")
    assert listed["name"] == "MY_KEY"
    assert "very-secret" not in str(listed)
    cli("secret", "delete", "MY_KEY", code=2)
    assert len(cli.json("secret", "list")) == 1
    cli("secret", "delete", "MY_KEY", "--yes")
    assert cli.json("secret", "list") == []


def test_a_secret_that_no_variable_can_hold_is_refused(cli: Cli) -> None:
    result = cli("secret", "set", "MY_KEY", stdin=b"\xff\x00", code=2)
    assert "not UTF-8 text" in result.stderr
    assert "base64" in result.stderr
    assert "zero bytes" in cli("secret", "set", "MY_KEY", stdin="a\0b", code=2).stderr
    assert cli.json("secret", "list") == []


def test_an_empty_secret_is_refused(cli: Cli) -> None:
    cli("secret", "set", "MY_KEY", stdin="", code=2)


def test_a_model_is_added_shown_and_deleted(cli: Cli) -> None:
    cli.environ["THEIR_KEY"] = "sk-very-secret"
    arguments = ("--base-url", "https://models.example/v1", "-m", "big", "--key-var", "THEIR_KEY", "--no-test")
    assert cli.json("model", "add", "big", *arguments)["name"] == "big"
    shown = cli("model", "show", "big").output
    assert "models.example" in shown
    assert "sk-very-secret" not in shown
    assert [item["name"] for item in cli.json("model", "list") if item["owner"] == "alice"] == ["big"]
    cli("model", "delete", "alice/big", "--yes")
    cli("model", "show", "big", code=1)


def test_a_model_is_private_unless_said_otherwise_and_keeps_what_was_said(cli: Cli) -> None:
    arguments = ("model", "add", "big", "--base-url", "https://models.example/v1", "--no-test")
    assert cli.json(*arguments)["visibility"] == "private"
    assert cli.json(*arguments, "--visibility", "public")["visibility"] == "public"
    assert cli.json(*arguments)["visibility"] == "public"


def test_a_model_has_two_prices_or_none_and_usage_says_what_it_cost(cli: Cli) -> None:
    arguments = ("model", "add", "big", "--base-url", "https://models.example/v1", "--no-test", "--input-price", "2.5")
    assert "only one of the two prices is given" in cli(*arguments, code=2).stderr
    assert cli.json(*arguments, "--output-price", "10")["output_price"] == 10.0
    assert "$2.50 in, $10.00 out" in cli("model", "show", "big").output
    owner, today = Owner.objects.get(slug="alice"), timezone.now().date()
    OwnerModelUsage.objects.create(owner=owner, day=today, model="alice/big", prompt_tokens=1234, cost=0.64)
    said = cli("usage").output
    assert all(text in said for text in ("alice/big", "1,234", "$0.64"))


def test_an_unset_key_variable_is_a_usage_error(cli: Cli) -> None:
    cli("model", "add", "big", "--base-url", "https://models.example/v1", "--key-var", "NOT_THERE", code=2)


def test_an_endpoint_that_does_not_answer_is_said_once(cli: Cli) -> None:
    said = cli("model", "add", "big", "--base-url", "http://127.0.0.1:9/v1", code=1).stderr
    assert said.count("ConnectError") == 1
    assert "--no-test" in said


def test_endpoints_are_imported_with_their_variants(cli: Cli) -> None:
    entry = '[[endpoint]]\nendpoint_id = "big"\nmodel = "big-1"\nurl = "https://{}.example/v1"\nkey = "KEY"\n'
    Path("endpoints.toml").write_text(entry.format("one") + entry.format("two"))
    assert len(cli.json("model", "import", "endpoints.toml", "--no-test")["imported"]) == 1
    assert len(cli.json("model", "show", "big")["variants"]) == 2


def test_a_model_directory_is_uploaded(cli: Cli) -> None:
    Path("model").mkdir()
    Path("model/config.json").write_text('{"model_type": "tiny"}')
    Path("model/model.safetensors").write_bytes(b"\0" * 64)
    Path("model/tokenizer.json").write_text("{}")
    view = cli.json("model", "import-dir", "tiny-copy", "model")
    assert (view["name"], view["source"], view["engine"]) == ("tiny-copy", "local", "torch")


def test_of_a_cloned_model_only_what_belongs_to_it_is_uploaded(cli: Cli) -> None:
    names = ["config.json", "model.safetensors", "sub/tokenizer.json", ".gitattributes", ".git/config", ".env"]
    for name in names:
        path = Path("model") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    Path("model/linked.json").symlink_to(Path("model/config.json").resolve())  # as Hugging Face's cache has them
    cli("model", "import-dir", "cloned", "model")
    uploaded = ModelFile.objects.filter(model__name="cloned").values_list("path", flat=True)
    assert sorted(uploaded) == ["config.json", "linked.json", "model.safetensors", "sub/tokenizer.json"]


def test_a_model_is_downloaded_as_it_was_uploaded(cli: Cli) -> None:
    names = ["config.json", "model.safetensors", "sub/tokenizer.json"]
    for name in names:
        path = Path("model") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 100_000)
    Path("model/config.json").write_text('{"model_type": "tiny"}')
    cli("model", "import-dir", "tiny-copy", "model")
    (Path("there") / "sub").mkdir(parents=True)
    Path("there/config.json").write_bytes(b"torn")  # of an earlier try
    Path("there/.model.safetensors.partial").write_bytes(b"half")
    assert cli.json("model", "pull", "tiny-copy", "there")["files"] == names
    assert {name: (Path("there") / name).read_bytes() for name in names} == {
        name: (Path("model") / name).read_bytes() for name in names
    }
    kept = Path("there/model.safetensors").stat().st_mtime_ns
    cli("model", "pull", "tiny-copy", "there")
    assert Path("there/model.safetensors").stat().st_mtime_ns == kept  # it was there
    Path("there/adapter_model.bin").write_bytes(b"another's")
    assert "adapter_model.bin" in cli("model", "pull", "tiny-copy", "there", code=2).stderr


def test_of_an_endpoint_nothing_is_downloaded(cli: Cli) -> None:
    cli("model", "add", "big", "--base-url", "https://models.example/v1", "--no-test")
    assert "endpoint" in cli("model", "pull", "big", code=1).stderr
    assert not Path("big").exists()
