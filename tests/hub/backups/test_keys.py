"""Who can open a backup: nobody at the destination, nobody with another identity; and what lost keys cost."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet
from django.conf import settings

from hub.accounts.models import User
from hub.backups.errors import BackupRefused, WrongKey
from hub.backups.services import restoring
from hub.secrets import keyring, services
from hub.secrets.models import Secret
from hub.secrets.services import set_secret
from hub.web.management.commands.serve import worker_environment
from tests.factories.accounts import make_user
from tests.hub.backups.site import Site, keep_blob, new_identity

pytestmark = pytest.mark.django_db(transaction=True)


def use_keys(monkeypatch: pytest.MonkeyPatch, *keys: str, secret_key: str = "") -> None:
    """The hub starts with other keys."""
    hub = settings.HUB.model_copy(update={"secrets_keys": list(keys)})
    monkeypatch.setattr(settings, "HUB", hub)
    if secret_key:
        monkeypatch.setattr(settings, "SECRET_KEY", secret_key)
    ring = keyring.make_keyring(list(keys), settings.SECRET_KEY)
    for module in (services, restoring):
        monkeypatch.setattr(module, "keyring", lambda: ring)


@pytest.fixture
def filled(site: Site) -> Site:
    user = make_user("alice")
    set_secret(owner=user.owner, name="HF_TOKEN", value="hush", user=user)
    keep_blob(b"a public wheel")
    return site


def test_nothing_that_is_readable_lies_at_the_destination(filled: Site) -> None:
    filled.back_up()
    blob = keep_blob(b"a public wheel" * 2)
    filled.back_up()
    everything = b"".join(filled.content(path) + path.encode() for path in filled.files())
    hashes = [blob.sha256.encode(), blob.sha256[:16].encode(), bytes.fromhex(blob.sha256)[:8]]
    words = [b"alice", b"HF_TOKEN", b"accounts_user", b"public wheel", settings.SECRET_KEY.encode()]
    for known in (*words, *hashes):
        assert known not in everything


def test_another_identity_opens_nothing(filled: Site) -> None:
    filled.back_up()
    other = filled.identity.with_name("other")
    new_identity(other)
    filled.wipe()
    with pytest.raises(WrongKey, match="no identity in that file can open backups/"):
        filled.restore(identity=other)
    assert not User.objects.exists()


def test_a_hub_with_other_keys_is_told_which_are_missing(filled: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.back_up()
    use_keys(monkeypatch, secret_key="another")
    with pytest.raises(WrongKey, match="no key of this hub can open") as caught:
        filled.back_up()
    assert "HUB_SECRET_KEY" in caught.value.hint


def test_secrets_that_no_key_opens_stop_a_restore_unless_they_are_given_up(
    filled: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Fernet.generate_key().decode()
    with monkeypatch.context() as then:
        use_keys(then, key)
        services.rotate_secrets()
        filled.back_up()
    filled.wipe()
    with pytest.raises(BackupRefused, match=f"1 of 1 secrets cannot be opened.*{keyring.key_id(key)}"):
        filled.restore()
    assert not User.objects.exists()
    filled.restore(lost_keys=True)
    assert Secret.objects.count() == 1


def test_who_has_lost_the_hubs_keys_restores_all_but_the_secrets(filled: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.back_up()
    use_keys(monkeypatch, secret_key="another")
    filled.wipe()
    with pytest.raises(WrongKey):
        filled.restore()
    filled.restore(lost_keys=True)
    assert User.objects.filter(username="alice").exists()
    assert len(list(filled.store.every())) == 1


def test_keys_may_be_rotated_between_backups(filled: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    filled.back_up()
    use_keys(monkeypatch, old)
    filled.back_up()
    use_keys(monkeypatch, new, old, secret_key="another")
    filled.back_up()
    use_keys(monkeypatch, new, secret_key="another")
    assert filled.back_up().added == 0


def test_plain_backups_need_no_identity_and_are_checked_all_the_same(filled: Site) -> None:
    filled.recipients = ()
    filled.back_up()
    assert filled.verify() == []
    path = filled.one_blob()
    assert filled.content(path)[:-32] == b"a public wheel"
    filled.wipe()
    filled.restore()
    filled.put(path, b"another wheel!" + filled.content(path)[14:])
    (problem,) = filled.verify()
    assert problem.startswith(f"{path}: its seal does not match: the bytes have been changed (blob {path[-40:]}")


def test_a_repository_file_that_was_lost_is_not_made_anew_over_backups(filled: Site) -> None:
    filled.back_up()
    filled.destination.delete("repository")
    with pytest.raises(BackupRefused, match="has backups, but lacks the file `repository`"):
        filled.back_up()


def test_the_embedded_worker_never_sees_the_destinations_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_BACKUP_S3_SECRET_ACCESS_KEY", "hush")
    assert "hush" not in worker_environment("127.0.0.1", 8000).values()
