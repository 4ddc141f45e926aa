"""A version with all that a bundle can hold, the `hub` command in this process, and a hub that has seen neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from envhub.cli.main import app
from envhub.cli.terminal.session import Session
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import BlobRef
from envhub.protocol.data import DataFile, DataRequest
from envhub.protocol.registry.files import FileRequest
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.visibility import Visibility
from typer.testing import CliRunner, Result

from hub.accounts.models import User
from hub.bundles.models import SigningKey
from hub.catalog.models import Model
from hub.catalog.services import register_adapter
from hub.data.files import add_file
from hub.data.images import Place, add_image
from hub.data.models import Image, OutsideFile, Snapshot
from hub.data.services import add
from hub.registry.models import Environment, Version, VersionUse
from hub.storage.models import BlobHolder
from hub.storage.services import store_bytes
from tests.envhub.cli.conftest import URL
from tests.envhub.cli.conftest import in_process as in_process
from tests.factories.accounts import make_token, make_user
from tests.factories.registry import create_ready_version
from tests.factories.training_runs import create_trainable

DATA, WORDS, IMAGE = "org/rows", "https://files.example.org/words.txt", "org/tool:1"


@dataclass
class Line:
    """`hub ...` of one user."""

    token: str

    def __call__(self, *arguments: str | Path, code: int = 0) -> Result:
        """The result, after checking the exit code."""
        environ = {"HUB_URL": URL, "HUB_TOKEN": self.token}
        session = Session(httpx.WSGITransport(get_wsgi_application()), environ, Path("/nonexistent"))
        done = CliRunner().invoke(app, [str(one) for one in arguments], obj=session, catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done

    def json(self, *arguments: str | Path, code: int = 0) -> Any:
        """What `--json` prints."""
        return json.loads(self(*arguments, "--json", code=code).stdout)


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


@pytest.fixture
def line(alice: User) -> Line:
    """Alice's."""
    return Line(make_token(alice))


@pytest.fixture
def root(db: None) -> Line:
    """An administrator's."""
    return Line(make_token(make_user("operator", is_superuser=True), Scope.READ, Scope.WRITE, Scope.ADMIN))


@pytest.fixture
def version(alice: User) -> Version:
    """alice/tiny-env@0.1.0, private; its checks have loaded a data set, a file and an image."""
    found = create_ready_version(alice)
    found.environment.visibility = "private"
    found.environment.save(update_fields=["visibility"])
    holder = alice.owner.pk
    rows, words, image = (store_bytes(data, holder=holder) for data in (b'{"q": 1}\n', b"one two", b"a rootfs"))
    files = (DataFile(path="train.jsonl", sha256=rows.pk, size=rows.size),)
    kept = add(kind="dataset", repository=DATA, request=DataRequest(files=files), holder=holder)
    add_file(request=FileRequest(kind="file", name=WORDS, sha256=words.pk, size=words.size), by=alice)
    content = BlobRef(sha256=image.pk, size=image.size)
    add_image(place=Place(IMAGE, None), layout="rootfs", content=content, by=alice)
    uses = {NeedKind.DATA_SET: (DATA, kept.revision), NeedKind.FILE: (WORDS, ""), NeedKind.SANDBOX: (IMAGE, "")}
    for kind, (name, revision) in uses.items():
        VersionUse.objects.create(version=found, kind=kind.value, name=name, revision=revision)
    return found


@pytest.fixture
def adapter(alice: User) -> Model:
    """alice/poet over alice/base."""
    base = create_trainable(alice.owner, "base")
    weights = store_bytes(b"lora", holder=alice.owner.pk)
    files = {"adapter_model.safetensors": weights.pk}
    return register_adapter(owner=alice.owner, name="poet", base=base, files=files, visibility=Visibility.PRIVATE)


Forget = Callable[..., str]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Forget:
    """Makes this hub another one: nothing of the registry, data or images is here, and its key is another. Gives the
    key of the old one, which is trusted unless told otherwise. `models` go too, unless they are kept."""

    def forget(*, trusted: bool = True, keep_models: bool = False) -> str:
        key = SigningKey.objects.get().public
        for kind in (Environment, Snapshot, OutsideFile, Image, SigningKey, *(() if keep_models else (Model,))):
            if kind is Model:
                Model.objects.exclude(base=None).delete()
            kind.objects.all().delete()  # type: ignore[attr-defined]
        BlobHolder.objects.all().delete()
        update = {"trusted_bundle_keys": [key] if trusted else []}
        monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update=update))
        return key

    return forget
