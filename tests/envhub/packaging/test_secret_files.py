"""Names that look like secrets are found wherever they lie; templates and public files are not."""

import pytest
from envhub.packaging.secret_files import secret_files

SECRET = [".env", "pkg/.env.production", "deploy/ID_RSA", "a/b/server.pem", ".aws/config", "credentials", "x/.netrc"]
HARMLESS = ["README.md", ".env.example", "pkg/environment.py", "data/keys.json", "monkey.py", "certs/cacert.pem"]


@pytest.mark.parametrize("path", SECRET)
def test_a_secret_is_named(path: str) -> None:
    assert secret_files(["src/main.py", path]) == [path]


def test_ordinary_files_are_not_secrets() -> None:
    assert secret_files(HARMLESS) == []
