"""The acceptance suite of a host, here as tests: every attack is one, and every control."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from workers.sandbox import backend
from workers.sandbox.bwrap import BwrapSandbox
from workers.sandbox.cgroups import NONE
from workers.sandbox.doctor.attack import Attack, Verdict, run_attack
from workers.sandbox.doctor.own_image import OnImage
from workers.sandbox.doctor.resources import BOMBS, TIGHT
from workers.sandbox.doctor.scene import set_scene
from workers.sandbox.doctor.suite import count, on_images, run_controls
from workers.sandbox.interface import BoxSpec, Sandbox
from workers.sandbox.options import Protection

from .running_engine import RunningEngine, need_podman

pytestmark = pytest.mark.sandbox


def test_the_suite_has_many_attacks(sandbox: Sandbox) -> None:
    assert count(sandbox.facts) >= 100


@pytest.mark.matrix
async def test_the_suite_sees_an_escape_when_a_protection_is_off(sandbox: Sandbox, root: Path) -> None:
    async with set_scene(root) as scene:
        weak = lambda off: BwrapSandbox(root, without=[off])  # noqa: E731
        findings = [finding async for finding in run_controls(weak, sandbox, scene)]
    assert [finding for finding in findings if not finding.good] == []
    assert len(findings) >= 20


async def test_without_cgroups_memory_is_watched_and_disk_and_processes_are_held(root: Path) -> None:
    sandbox = BwrapSandbox(root, tree=NONE)
    async with set_scene(root) as scene:
        for bomb in BOMBS:
            async with sandbox.create(scene.spec(TIGHT)) as box:
                outcome = await run_attack(box, bomb.attack, scene.arguments)
            assert outcome.verdict is Verdict.CONTAINED, outcome


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("return 'out'", Verdict.ESCAPED),
        ("raise PermissionError(1, 'no')", Verdict.CONTAINED),
        ("return nonsense", Verdict.BROKEN),
        ("this is not Python", Verdict.BROKEN),
    ],
)
async def test_an_attack_that_was_not_tried_is_no_pass(sandbox: Sandbox, body: str, verdict: Verdict) -> None:
    async with sandbox.create(BoxSpec()) as box:
        assert (await run_attack(box, Attack("probe", body), {})).verdict is verdict


def test_every_attack_is_contained_and_manage_py_says_so(sandbox: Sandbox) -> None:
    command = [sys.executable, "manage.py", "sandbox_doctor", "--no-controls"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    attacks = count(sandbox.facts)
    assert f"{attacks} of {attacks} hostile actions contained" in done.stdout


@pytest.mark.matrix
@pytest.mark.parametrize("protection", Protection)
async def test_the_suite_sees_an_escape_when_containers_lack_a_protection(root: Path, protection: Protection) -> None:
    need_podman()
    with tempfile.TemporaryDirectory(prefix="eg-", dir="/tmp") as name:
        Path(name).chmod(0o711)
        engine = RunningEngine(Path(name), "--without", protection.name, module="tests.workers.sandbox.weak_engine")
        engine.start()
        outcomes = []
        async with set_scene(root) as scene:
            boxes = OnImage(backend("podman", root, engine=engine.socket), scene.image)
            attacks = [attack for attack in on_images(boxes.facts) if attack.off is protection]
            async with boxes.create(scene.spec()) as box:
                outcomes = [await run_attack(box, attack, scene.arguments, "python3") for attack in attacks]
        engine.stop()
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.verdict is not Verdict.ESCAPED] == []


@pytest.mark.matrix
def test_every_attack_on_containers_is_contained(engine: RunningEngine, podman: OnImage, root: Path) -> None:
    command = [sys.executable, "-m", "workers.sandbox", "--root", str(root), "doctor", "--backend", "podman"]
    done = subprocess.run([*command, "--engine", str(engine.socket)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    attacks = count(podman.facts)
    assert f"{attacks} of {attacks} hostile actions contained" in done.stdout
