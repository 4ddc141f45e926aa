"""What the hub keeps in a Redis that workers reach comes back, and a pickle that lies there is not run."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from django.core.cache.backends.redis import RedisCache

from tests.fakes.redis_server import RedisServer

OPTIONS = {"OPTIONS": {"serializer": "hub.core.cache_json.JsonSerializer"}}


def test_values_come_back_and_pickles_do_not(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        cache = RedisCache(server.url, OPTIONS)
        assert (cache.add("tries", [1.5, 2.5]), cache.add("tries", [])) == (True, False)
        assert cache.get("tries") == [1.5, 2.5]
        cache._cache.get_client("x").set(cache.make_key("planted"), pickle.dumps("x"))
        with pytest.raises(ValueError, match=r"decode|Expecting"):
            cache.get("planted")
        cache.close()
