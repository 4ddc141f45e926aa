"""Registers the run kind `build`, and listens for what versions wait for. Imported by apps.py."""

from fnmatch import fnmatchcase

from django.conf import settings
from django.db.models import Q
from envhub.protocol.needs import NeedKind
from envhub.protocol.runs import RunKind

from hub.core.needs import Gate, listen, listen_to_uses, register_gate
from hub.registry.models import Version
from hub.registry.services import follow_build, recheck_waiting
from hub.registry.services.opened import OpenedHosts
from hub.registry.services.uses import keep_use
from hub.registry.wire import build_payload
from hub.runs.chores import register_chore
from hub.runs.kinds import RunKindSpec, register
from hub.runs.retention import runs_of

versions = Version.objects.order_by()
shown = Q(pk__in=versions.exclude(build_run=None).values("build_run_id"))  # as the log of a version's build or checks
shown |= Q(pk__in=versions.exclude(check_run=None).values("check_run_id"))
register(
    RunKindSpec(
        kind=RunKind.BUILD,
        queue="build",
        payload=build_payload,
        on_transition=follow_build,
        remains=runs_of(RunKind.BUILD, needed=shown),
    )
)
listen(recheck_waiting)
listen_to_uses(keep_use)
git, clone = frozenset({NeedKind.GIT_HOST}), frozenset({NeedKind.CLONE_HOST})
register_gate(Gate("HUB_GIT_HOSTS", lambda: settings.HUB.git_hosts, git, lambda entry, name: fnmatchcase(name, entry)))
register_gate(
    Gate("HUB_CLONE_HOSTS", lambda: settings.HUB.clone_hosts, clone, lambda entry, name: fnmatchcase(name, entry))
)
register_chore(OpenedHosts().sweep)
