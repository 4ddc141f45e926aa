"""Writes of the registry: pushes, builds, versions, environments, stored wheels."""

from hub.registry.services.builds import rebuild_version, start_build
from hub.registry.services.checks import check_version, follow_build, recheck_version, recheck_waiting
from hub.registry.services.environments import (
    archive_environment,
    count_evaluations,
    delete_environment,
    patch_environment,
)
from hub.registry.services.forks import fork_environment
from hub.registry.services.moves import environment_of_package, forget_name, move_environment
from hub.registry.services.pushes import begin_push, complete_push
from hub.registry.services.reports import store_build_report
from hub.registry.services.samples import add_sample
from hub.registry.services.stars import star_environment
from hub.registry.services.uploads import publish_source, upload_environment
from hub.registry.services.versions import delete_version, yank_version
from hub.registry.services.wheels import find_source_built, is_shared, put_source_built

__all__ = [
    "add_sample",
    "archive_environment",
    "begin_push",
    "check_version",
    "complete_push",
    "count_evaluations",
    "delete_environment",
    "delete_version",
    "environment_of_package",
    "find_source_built",
    "follow_build",
    "forget_name",
    "fork_environment",
    "is_shared",
    "move_environment",
    "patch_environment",
    "publish_source",
    "put_source_built",
    "rebuild_version",
    "recheck_version",
    "recheck_waiting",
    "star_environment",
    "start_build",
    "store_build_report",
    "upload_environment",
    "yank_version",
]
