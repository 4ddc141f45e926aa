"""Every page of the showcase by name, for tests that visit all of them."""

from __future__ import annotations

from tests.hub.web.showcase import Showcase

NAMES = (
    "home",
    "environments",
    "environment",
    "versions",
    "version",
    "invalid-version",
    "needing-environment",
    "needing-version",
    "files",
    "file",
    "evaluate",
    "needing-evaluate",
    "environment-evaluations",
    "evaluations",
    "evaluation",
    "running-evaluation",
    "compare",
    "compare-pick",
    "rollout",
    "failed-rollout",
    "runs",
    "run",
    "run-sandboxes",
    "sandboxes",
    "sandbox",
    "ended-sandbox",
    "models",
    "data",
    "tokens",
    "secrets",
    "storage",
    "password",
    "device",
)


def address(showcase: Showcase, name: str) -> str:
    """The path of one of NAMES."""
    environment = f"/environments/{showcase.user.username}/calculator-tool"
    evaluation = f"/evaluations/{showcase.ended.pk}"
    return {
        "home": "/",
        "environments": "/environments",
        "environment": environment,
        "versions": f"{environment}/versions",
        "version": f"{environment}/versions/0.3.1",
        "invalid-version": f"/environments/{showcase.user.username}/broken-env/versions/0.1.0",
        "needing-environment": f"/environments/{showcase.user.username}/deep-search",
        "needing-version": f"/environments/{showcase.user.username}/deep-search/versions/0.1.0",
        "files": f"{environment}/versions/0.3.1/files",
        "file": f"{environment}/versions/latest/files?path=calculator_tool.py",
        "evaluate": f"{environment}/evaluate",
        "needing-evaluate": f"/environments/{showcase.user.username}/deep-search/evaluate",
        "environment-evaluations": f"{environment}/evaluations",
        "evaluations": "/evaluations",
        "evaluation": evaluation,
        "running-evaluation": f"/evaluations/{showcase.running.pk}",
        "compare": f"/evaluations/compare?a={showcase.ended.pk}&b={showcase.running.pk}",
        "compare-pick": f"/evaluations/compare?a={showcase.ended.pk}",
        "rollout": f"{evaluation}/rollouts/0/0",
        "failed-rollout": f"{evaluation}/rollouts/{showcase.failed.example}/{showcase.failed.rollout}",
        "runs": "/runs",
        "run": f"/runs/{showcase.run.pk}",
        "run-sandboxes": f"/runs/{showcase.running.run_id}/sandboxes",
        "sandboxes": "/sandboxes",
        "sandbox": f"/sandboxes/{showcase.sandbox.pk}",
        "ended-sandbox": f"/sandboxes/{showcase.ended_sandbox.pk}",
        "models": "/models",
        "data": "/data",
        "tokens": "/settings/tokens",
        "secrets": "/settings/secrets",
        "storage": "/settings/storage",
        "usage": "/settings/usage",
        "password": "/settings/password",
        "device": "/device",
    }[name]
