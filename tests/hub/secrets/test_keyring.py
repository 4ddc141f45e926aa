"""The keys: derived by default, rotatable, and a bad one stops the process with its name."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet, InvalidToken
from django.core.exceptions import ImproperlyConfigured

from hub.secrets.keyring import make_keyring


def test_a_hub_without_keys_derives_one_that_stays_the_same() -> None:
    sealed = make_keyring([], "a secret key").encrypt(b"value")
    assert make_keyring([], "a secret key").decrypt(sealed) == b"value"
    with pytest.raises(InvalidToken):
        make_keyring([], "another secret key").decrypt(sealed)


def test_what_was_sealed_before_the_first_key_was_set_still_opens() -> None:
    sealed = make_keyring([], "a secret key").encrypt(b"value")
    assert make_keyring([Fernet.generate_key().decode()], "a secret key").decrypt(sealed) == b"value"


def test_the_first_key_seals_and_the_older_ones_open() -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    sealed = make_keyring([old], "s").encrypt(b"value")
    both = make_keyring([new, old], "s")
    assert both.decrypt(sealed) == b"value"
    assert make_keyring([new], "s").decrypt(both.encrypt(b"fresh")) == b"fresh"


def test_a_malformed_key_names_its_setting() -> None:
    with pytest.raises(ImproperlyConfigured, match="HUB_SECRETS_KEYS"):
        make_keyring(["not a key"], "s")
