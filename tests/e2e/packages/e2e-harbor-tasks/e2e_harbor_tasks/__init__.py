"""Harbor tasks that the package brings, by verifiers' own taskset and environment."""

from collections.abc import Iterator
from pathlib import Path

from verifiers.v1.tasksets.harbor import HarborEnv, HarborTask, HarborTaskset
from verifiers.v1.tasksets.harbor.taskset import parse_task

__all__ = ["HarborEnv", "Tasks"]


class Tasks(HarborTaskset):
    def load(self) -> Iterator[HarborTask]:
        for index, toml in enumerate(sorted((Path(__file__).parent / "tasks").rglob("task.toml"))):
            yield HarborTask(parse_task(toml.parent, index, self.config), self.config.task)
