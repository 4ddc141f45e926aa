"""Which images the sandboxes of an environment's rows will ask for, so that missing ones are known before a run.

Read from where the library itself takes them, never guessed from the names of columns.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MOST_ROWS, MOST_IMAGES, MOST_S = 20_000, 1000, 20.0
LONGEST = 300  # characters of a name
OF_A_STATE = "get_docker_image"  # CliAgentEnv and its subclasses: of Harbor's tasks, of composable environments


def images(rows: Iterator[Any], image_of: Callable[[Any], object]) -> dict[str, int]:
    """Map each image to the first row that names it, in order. Limited in rows, in images and in time."""
    found: dict[str, int] = {}
    ends = time.monotonic() + MOST_S
    for index, row in enumerate(rows):
        if index >= MOST_ROWS or len(found) >= MOST_IMAGES or time.monotonic() > ends:
            break
        name = image_of(row)
        if isinstance(name, str) and 0 < len(name) <= LONGEST:
            found.setdefault(name, index)
    return found


def of_task(task: Any) -> object:
    """Return the image that a task of the current generation needs."""
    return getattr(getattr(task, "data", task), "image", None)


def of_env(env: Any) -> Callable[[Mapping[str, Any]], object] | None:
    """Return how a legacy environment chooses a row's image; None if it makes no sandbox for each rollout."""
    choose = getattr(env, OF_A_STATE, None)
    return None if choose is None else lambda row: _chosen(choose, row)


def _chosen(choose: Callable[[dict[str, Any]], Any], row: Mapping[str, Any]) -> object:
    """Ask as a rollout would, with the row for a state. What needs more than the row, or waits, says nothing."""
    info = row.get("info") or {}
    asked: Any = None
    try:
        info = json.loads(info) if isinstance(info, str) else info
        asked = choose({**row, "info": info, "input": {**row, "info": info}})
        if isinstance(asked, str):
            return asked
        asked.send(None)
    except StopIteration as done:
        return done.value
    except Exception:  # noqa: BLE001  the author's code, which expects a state
        return None
    finally:
        if hasattr(asked, "close"):
            asked.close()
    return None
