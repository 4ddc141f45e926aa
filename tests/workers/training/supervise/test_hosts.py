"""The coordinator beside the driver of its cluster, played by a script: what it makes of each line."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.runs import FailureKind
from envhub.protocol.training.cluster_need import ClusterSplit

from workers.inference.policy_engine import PolicyEngineStart
from workers.runs.children import Children
from workers.runs.errors import RunFailed
from workers.runs.gpu_meter import GpuMeter
from workers.training.cluster.head import HEAD_LOST
from workers.training.cluster.plan import ClusterPlan, read_plan
from workers.training.cluster.wire import EngineDown, EngineUp, ExtraGpusHeld, Line, Pause, Placed, RolloutsUp, Said
from workers.training.coordinator.policy import VersionedPolicy
from workers.training.learner.directory.run_dir import RunDir
from workers.training.supervise.engine import UNSERVED
from workers.training.supervise.hosts import REST_S, HostsKeeper
from workers.training.supervise.spread_source import RolloutHosts

PLACED = Placed(hosts=("a", "b"), ip="10.0.0.1")


def keeper(tmp_path: Path, said: list[str]) -> HostsKeeper:
    split = ClusterSplit(hosts=2, ranks=4, ranks_per_host=2, engines=3, engine_gpus_each=2)
    start = PolicyEngineStart(kind="vllm", directory=tmp_path / "base", name="policy")
    plan = ClusterPlan(address="10.0.0.1:6379", run_id="r", split=split, on_gpus=True, start=start)
    (tmp_path / "children").mkdir()
    policy = VersionedPolicy("m", "policy", lambda address, model: None, adapters=True)  # type: ignore[arg-type,return-value]
    return HostsKeeper(
        plan,
        RunDir(tmp_path),
        policy,
        Children(tmp_path / "children"),
        {},
        said.append,
        lambda text: said.append(f"! {text}"),
    )


def plays(monkeypatch: pytest.MonkeyPatch, *lines: Line, then: str = "sys.stdin.read()") -> None:
    """The driver is a script that says these lines in one go, so that each is heard before anything else happens."""
    text = "".join(f"{line.model_dump_json()}\n" for line in lines)
    script = f"import sys\nsys.stdout.write({text!r})\nsys.stdout.flush()\n{then}"
    real = asyncio.create_subprocess_exec

    async def instead(*_: str, **settings: Any) -> asyncio.subprocess.Process:
        return await real(sys.executable, "-c", script, **settings)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", instead)


def test_a_hosts_bundle_holds_its_processes(tmp_path: Path) -> None:
    plan = keeper(tmp_path, []).plan
    assert plan.bundles() == [{"CPU": 1.0, "GPU": 6.0}, {"CPU": 1.0, "GPU": 4.0}]
    assert plan.model_copy(update={"on_gpus": False}).bundles() == [{"CPU": 1.0}, {"CPU": 1.0}]


async def test_the_run_goes_on_when_it_is_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    made = keeper(tmp_path, said)
    plays(monkeypatch, Said(text="waiting for room", waits=True), PLACED)
    task = asyncio.create_task(made.run())
    await asyncio.wait_for(made.placed.wait(), 20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert said == ["waiting for room", "! waiting for room", "placed on a, b"]
    assert read_plan(made.run_dir) == made.plan
    assert not list((tmp_path / "children").iterdir())


async def test_a_cluster_that_cannot_be_used_fails_the_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays(monkeypatch, then="sys.exit(1)")
    with pytest.raises(RunFailed) as caught:
        await keeper(tmp_path, []).run()
    assert caught.value.failure.code == "cluster_lost"


async def test_a_driver_that_ends_is_started_again_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    plays(monkeypatch, PLACED, then="sys.exit(9)")
    with pytest.raises(RunFailed):
        await keeper(tmp_path, said).run()
    assert said.count("the driver of the run's hosts ended (9); starting it anew") == 3


async def test_a_lost_driver_takes_the_hosts_that_gave_rollouts_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keeper(tmp_path, [])
    made.hosts = RolloutHosts(None, lambda text: None)  # type: ignore[arg-type]
    seen: list[Any] = []
    monkeypatch.setattr(made, "_lose_rollouts", lambda number: seen.append(made.hosts.hosts.pop(number)))
    plays(monkeypatch, PLACED, RolloutsUp(host=1, ip="10.0.0.2", base_url="http://x/v1", key="k"), then="sys.exit(9)")
    with pytest.raises(RunFailed):
        await made.run()
    assert [host.name for host in seen] == ["10.0.0.2"] * 4


async def test_a_lost_head_gives_the_run_back_at_once_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    plays(monkeypatch, PLACED, then=f"sys.exit({HEAD_LOST})")
    with pytest.raises(RunFailed) as caught:
        await keeper(tmp_path, said).run()
    failure = caught.value.failure
    assert (failure.kind, failure.code) == (FailureKind.INFRASTRUCTURE, "cluster_lost")
    assert "head of the Ray cluster at 10.0.0.1:6379 does not answer" in failure.message
    assert not any("starting it anew" in text for text in said)


async def test_an_engine_that_never_serves_fails_the_run_however_slowly_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays(monkeypatch, PLACED, *[EngineDown(engine=1, reason="no such file")] * UNSERVED)
    monkeypatch.setattr("workers.training.supervise.hosts.MEMORY_S", 0.0)  # as if hours passed between the ends
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(keeper(tmp_path, []).run(), 20)
    assert "Engine 1 was started 3 times in a row and never served. no such file" in str(caught.value.exceptions[0])


async def test_gpus_of_extra_engines_count_until_they_are_given_back_or_the_driver_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keeper(tmp_path, [])
    now = itertools.count(0.0, 10.0)
    made.extra_gpus = GpuMeter(lambda: next(now))
    held = [ExtraGpusHeld(count=count) for count in (2, 4, 0, 3)]
    plays(monkeypatch, PLACED, *held, then=f"sys.exit({HEAD_LOST})")
    with pytest.raises(RunFailed):
        await made.run()
    assert made.extra_gpus.held == 0
    assert made.extra_gpus.seconds() == 2 * 10 + 4 * 10 + 3 * 10


async def test_a_run_that_ends_holds_no_extra_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    made = keeper(tmp_path, said)
    plays(monkeypatch, PLACED, ExtraGpusHeld(count=2), Said(text="done"))
    task = asyncio.create_task(made.run())
    async with asyncio.timeout(20):
        while "done" not in said:
            await asyncio.sleep(0.01)
    assert made.extra_gpus.held == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert made.extra_gpus.held == 0


async def test_an_engine_whose_end_is_heard_at_once_is_never_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    up = EngineUp(engine=0, host="10.0.0.9", base_url="http://127.0.0.1:9/v1", key="k")
    plays(monkeypatch, PLACED, up, EngineDown(engine=0, reason="gone", host_lost=True), Said(text="done"))
    made = keeper(tmp_path, said)
    task = asyncio.create_task(made.run())
    async with asyncio.timeout(20):
        while "done" not in said:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert (made._engines, made.policy._replicas) == ({}, {})
    assert not any("serves on" in text for text in said)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_lost_hosts_and_extra_engines_do_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = [EngineDown(engine=1, reason="host", host_lost=True)] * 20
    guests = [EngineDown(engine=3, reason="guest")] * 20
    said: list[str] = []
    plays(monkeypatch, PLACED, *lost, *guests, Said(text="done"))
    task = asyncio.create_task(keeper(tmp_path, said).run())
    async with asyncio.timeout(20):
        while "done" not in said:
            await asyncio.sleep(0.01)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_extra_engine_that_never_serves_is_tried_again_much_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keeper(tmp_path, [])
    told: list[Line] = []
    monkeypatch.setattr(made, "_tell", told.append)
    for _ in range(2 * UNSERVED - 1):
        made._end(EngineDown(engine=3, reason="no room on its disk"))
    made._end(EngineDown(engine=3, reason="A run waits for its room.", host_lost=True))
    assert told == [Pause(engine=3, seconds=REST_S)]


async def test_the_end_of_an_engine_that_has_served_is_not_one_before_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def watch(number: int, life: Any) -> None:
        await life.wait()

    made = keeper(tmp_path, [])
    monkeypatch.setattr(made, "_watch", watch)
    up = EngineUp(engine=0, host="10.0.0.9", base_url="http://127.0.0.1:9/v1", key="k")
    async with asyncio.TaskGroup() as tasks:
        made._hear(up, tasks)
        await asyncio.sleep(0.05)
        for _ in range(UNSERVED):  # the first of which is of an engine that served
            made._end(EngineDown(engine=0, reason="gone"))
    with pytest.raises(RunFailed, match="never served"):
        made._end(EngineDown(engine=0, reason="gone"))
