"""Which images rows need is asked of the environment as a rollout would ask."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from envhub.runner import row_images
from envhub.runner.legacy.describe import describe
from envhub.runner.row_images import images, of_env, of_task

ROWS = [
    {"prompt": "a", "info": {"docker_image": "one"}},
    {"prompt": "b", "info": '{"docker_image": "two"}'},
    {"prompt": "c", "info": {"docker_image": "one"}},
    {"prompt": "d", "info": {}},
    {"prompt": "e", "info": "not JSON"},
]


class Harbor:
    """As verifiers' environments choose the image of a rollout."""

    async def get_docker_image(self, state: Any) -> str:
        return str(state["info"].get("docker_image") or "python:3.11-slim")


class Waiting:
    async def get_docker_image(self, state: Any) -> str:
        await asyncio.sleep(0)
        return "late"


def named(env: Any) -> dict[str, int]:
    choose = of_env(env)
    assert choose is not None
    return images(iter(ROWS), choose)


def test_each_image_is_named_with_the_first_row_that_needs_it() -> None:
    assert named(Harbor()) == {"one": 0, "two": 1, "python:3.11-slim": 3}


def test_what_needs_more_than_a_row_says_nothing() -> None:
    assert named(Waiting()) == {}


def test_a_plain_method_may_choose_too() -> None:
    assert named(SimpleNamespace(get_docker_image=lambda state: "plain")) == {"plain": 0}


def test_an_environment_without_a_sandbox_for_each_rollout_has_none() -> None:
    assert of_env(SimpleNamespace(docker_image="x")) is None


def test_tasks_of_the_current_generation_say_their_own() -> None:
    tasks = [SimpleNamespace(data=SimpleNamespace(image=image)) for image in (None, "one", 5, "", "x" * 301)]
    assert images(iter(tasks), of_task) == {"one": 1}


def test_they_are_limited(monkeypatch: Any) -> None:
    monkeypatch.setattr(row_images, "MOST_IMAGES", 2)
    assert images(iter("abc"), str) == {"a": 0, "b": 1}
    monkeypatch.setattr(row_images, "MOST_ROWS", 1)
    assert images(iter("abc"), str) == {"a": 0}


def test_a_legacy_environment_describes_them_for_each_split() -> None:
    env = Harbor()
    adapter = SimpleNamespace(
        env=env, module=SimpleNamespace(), leaves=[env], env_class="Harbor", message_type="chat",
        split=lambda name: ROWS[:2] if name == "train" else ROWS[2:3], weights=dict,
    )  # fmt: skip
    splits = describe(adapter, 1)["splits"]  # type: ignore[arg-type]
    assert (splits["train"]["images"], splits["eval"]["images"]) == ({"one": 0, "two": 1}, {"one": 0})
    assert describe(adapter, 0)["splits"]["train"]["images"] == {}, "a run needs only sizes"  # type: ignore[arg-type]
