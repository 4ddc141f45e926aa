"""What the author of a package would give it: any value for each secret, the scripted model for each judge."""

from __future__ import annotations

from envhub.protocol.accounts.secrets import SecretRequest
from envhub.protocol.registry.needs import CheckSettings, NeedKind
from envhub.protocol.registry.packages import VersionView

from tests.corpus.trials import Trial
from tests.e2e.stack import Stack

ROUNDS = 3  # what it lacks next is seen once it has the first
VALUE = "a-made-up-value"


def give(stack: Stack, trial: Trial, model: str) -> None:
    """Grant what the checks name, and have it checked again, until they name nothing more of that kind."""
    for _ in range(ROUNDS):
        given = _lacking(trial.view, model)
        if trial.view is None or given == CheckSettings():
            return
        reference = f"{trial.view.owner}/{trial.view.name}"
        with stack.client() as hub:
            for name in given.secrets:
                hub.secrets.put(trial.view.owner, name, SecretRequest(value=VALUE))
            checked = hub.environments.check(reference, trial.view.version, given)
            if checked.check_run_id is not None:
                stack.wait_run(checked.check_run_id)
            trial.view = hub.environments.version(reference, trial.view.version)
        trial.given = given.over(trial.given)


def _lacking(view: VersionView | None, model: str) -> CheckSettings:
    needs = view.needs if view is not None else ()
    return CheckSettings(
        secrets=tuple(need.name for need in needs if need.kind is NeedKind.SECRET),
        judges={need.name: model for need in needs if need.kind is NeedKind.JUDGE},
    )
