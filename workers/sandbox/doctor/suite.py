"""The acceptance suite of a host: every attack must be contained, and must succeed when its protection is disabled."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from .. import layers
from ..interface import Facts, Sandbox
from ..layers import PYTHON
from ..options import Protection
from . import host_files, kernel, network, processes, resources
from .attack import Attack, Outcome, Verdict, run_attack
from .own_image import OnImage
from .scene import Scene
from .traps import host_attacks, run_host_attack

IN_BOX: dict[str, tuple[Attack, ...]] = {
    "host files": host_files.ATTACKS,
    "processes": processes.ATTACKS,
    "network": network.ATTACKS,
    "kernel": kernel.ATTACKS,
}


Weaken = Callable[[Protection], Sandbox]


@dataclass(frozen=True)
class Finding:
    """One line of the report. `good` decides the exit status."""

    area: str
    outcome: Outcome
    good: bool


def on_host(facts: Facts) -> list[tuple[str, Attack]]:
    """Return the attacks for boxes with the host's programs, each with its area.

    Without those that succeed where a downgrade says so.
    """
    shares = any(layers.NO_VIEWS in downgrade for downgrade in facts.downgrades)
    attacks = [(area, attack) for area, attacks in IN_BOX.items() for attack in attacks]
    return [(area, attack) for area, attack in attacks if not (shares and attack.off is Protection.VIEWS)]


def on_images(facts: Facts) -> list[Attack]:
    """Return the attacks for boxes on images. Those that only harm the box's own copy of the image are left out."""
    return [attack for _, attack in on_host(facts) if not attack.own]


def count(facts: Facts) -> int:
    """Return how many attacks a backend has to contain."""
    in_boxes = len(on_images(facts)) + (len(on_host(facts)) if facts.on_host else 0)
    return in_boxes + len(resources.BOMBS) + len(host_attacks(facts))


def contained(area: str, outcome: Outcome) -> Finding:
    return Finding(area, outcome, outcome.verdict is Verdict.CONTAINED)


def seen(outcome: Outcome) -> Finding:
    """Make a finding of the negative control, where an attack must escape."""
    return Finding("control", outcome, outcome.verdict is Verdict.ESCAPED)


async def run_attacks(sandbox: Sandbox, scene: Scene) -> AsyncIterator[Finding]:
    if sandbox.facts.on_host:
        for area, attacks in groupby(on_host(sandbox.facts), key=itemgetter(0)):
            async with sandbox.create(scene.spec()) as box:
                for _, attack in attacks:
                    yield contained(area, await run_attack(box, attack, scene.arguments))
    async for finding in _run_on_image(sandbox, scene):
        yield finding
    usual, interpreter = usual_boxes(sandbox, scene)
    for bomb in resources.BOMBS:
        async with usual.create(scene.spec(resources.TIGHT)) as box:
            yield contained("resources", await run_attack(box, bomb.attack, scene.arguments, interpreter))
    for name, trap in host_attacks(sandbox.facts).items():
        yield contained("worker", await run_host_attack(usual, scene.directory, name, trap))


async def _run_weakened(weak: Weaken, scene: Scene) -> AsyncIterator[Finding]:
    for protection in Protection:
        attacks = [attack for group in IN_BOX.values() for attack in group if attack.off is protection]
        async with weak(protection).create(scene.spec()) as box:
            for attack in attacks:
                outcome = await run_attack(box, attack, scene.arguments)
                yield seen(replace(outcome, name=f"{attack.name}, without {protection.value}"))


def usual_boxes(sandbox: Sandbox, scene: Scene) -> tuple[Sandbox, str]:
    """Return boxes with the host's programs if the backend makes them, else on an image; and Python's path there."""
    return (sandbox, PYTHON) if sandbox.facts.on_host else (OnImage(sandbox, scene.image), "python3")


async def _run_on_image(sandbox: Sandbox, scene: Scene) -> AsyncIterator[Finding]:
    if any(layers.NO_LAYERS in downgrade for downgrade in sandbox.facts.downgrades):
        for attack in on_images(sandbox.facts):  # there are no boxes on images to attack, as a downgrade reports
            yield contained("image", Outcome(attack.name, Verdict.CONTAINED, "this host has no boxes on images"))
        return
    async with OnImage(sandbox, scene.image).create(scene.spec()) as box:
        for attack in on_images(sandbox.facts):
            yield contained("image", await run_attack(box, attack, scene.arguments, "python3"))


async def run_controls(weak: Weaken | None, sandbox: Sandbox, scene: Scene) -> AsyncIterator[Finding]:
    """Disable one protection at a time: the attacks that it stops must now succeed.

    An engine's daemon never disables one (then `weak` is None), so only limits are raised there.
    """
    if weak is not None:
        async for finding in _run_weakened(weak, scene):
            yield finding
    for bomb in resources.BOMBS:
        unfiltered = bomb.filtered and sandbox.facts.limits.endswith("none")
        usual, interpreter = usual_boxes(sandbox, scene)
        maker = weak(Protection.SECCOMP) if weak and unfiltered else usual
        async with maker.create(scene.spec(bomb.control)) as box:
            outcome = await run_attack(box, bomb.attack, scene.arguments, interpreter)
            yield seen(replace(outcome, name=f"{bomb.attack.name}, with that limit raised"))
