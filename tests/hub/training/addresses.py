"""Every page of a training run by name, for the tests that visit all of them."""

from __future__ import annotations

from tests.factories.training_showcase import TrainingShowcase

PRIVATE = (
    "charts", "newest", "ended", "failed", "waiting", "numbers", "rollouts", "first-rollouts", "labelled", "weights",
    "configuration", "log", "rollout", "unused-rollout", "failed-rollout", "adapter",
    "examples", "mixed", "tokens", "sides", "compare", "compare-time", "lineage", "adapter-lineage", "replay",
    "replay-beside",
)  # fmt: skip
OPEN = ("list", "environment", "version-lineage")
SHARED = ("shared", "shared-rollouts", "shared-examples", "shared-rollout", "shared-tokens")
NAMES = (*PRIVATE, *OPEN, *SHARED, "new", "base", "deploy", "deployments")


def address(showcase: TrainingShowcase, name: str) -> str:
    """The path of one of NAMES."""
    user = showcase.user.username
    running, ended = f"/training/{showcase.running.pk}", f"/training/{showcase.ended.pk}"
    compared = f"/training/compare?id={showcase.ended.pk}&id={showcase.running.pk}"
    step, index = showcase.rollout
    return {
        "charts": running,
        "newest": f"{running}?newest=25",
        "ended": ended,
        "failed": f"/training/{showcase.failed.pk}",
        "waiting": f"/training/{showcase.waiting.pk}",
        "numbers": f"{running}/numbers",
        "rollouts": f"{running}/rollouts",
        "labelled": f"{running}/rollouts?label=any",
        "first-rollouts": f"{running}/rollouts?step=1",
        "weights": f"{ended}/weights",
        "configuration": f"{running}/configuration",
        "log": f"{running}/log",
        "rollout": f"{running}/rollouts/{step}/{index}",
        "tokens": f"{running}/rollouts/{step}/{index}?show=tokens",
        "examples": f"{running}/rollouts?show=examples",
        "mixed": f"{running}/rollouts?show=mixed&environment=reverse-text",
        "sides": f"{running}/rollouts/compare?at={step}.{index}&at={step}.{index + 1}",
        "unused-rollout": f"{running}/rollouts/{step}/{2 * index}?show=tokens",
        "failed-rollout": f"{running}/rollouts/{step}/{3 * index + 2}",
        "replay": showcase.replay,
        "replay-beside": f"{showcase.replay}/original",
        "lineage": f"{ended}/lineage",
        "adapter-lineage": f"/models/{user}/reverse-lora/lineage",
        "version-lineage": f"/environments/{user}/reverse-text/versions/0.1.0/lineage",
        "compare": compared,
        "compare-time": f"{compared}&by=time&scale=log&smooth=0.6",
        "adapter": f"/models/{user}/reverse-lora",
        "base": f"/models/{user}/tiny",
        "deploy": f"/models/{user}/reverse-lora/deploy",
        "deployments": "/deployments",
        "list": "/training",
        "environment": f"/environments/{user}/reverse-text/training",
        "shared": showcase.shared,
        "shared-rollouts": f"{showcase.shared}/rollouts",
        "shared-examples": f"{showcase.shared}/rollouts?show=examples",
        "shared-rollout": f"{showcase.shared}/rollouts/{step}/{index}",
        "shared-tokens": f"{showcase.shared}/rollouts/{step}/{index}?show=tokens",
        "new": f"/training/new?environment={user}/reverse-text&model={user}/tiny",
    }[name]
