"""The engine manager with the real torch engine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from envhub.protocol.models.catalog import LocalTarget
from envhub.protocol.placing.gpus import Gpu, GpuNeed
from envhub.protocol.runs import EngineCounts

from tests.fakes.nvidia_smi import install
from workers.inference.address import EngineAddress
from workers.inference.engines import EngineFailed, acquire
from workers.inference.manager import EngineManager, EngineSettings
from workers.inference.policy_engine import PolicyEngineStart
from workers.inference.process import EngineProcess, torch_command, vllm_command
from workers.inference.requests import EngineRequest
from workers.runs.children import Children
from workers.runs.gpu_pool import GpuPool

pytestmark = pytest.mark.torch


@pytest.fixture
async def data(tmp_path: Path) -> AsyncIterator[Path]:
    (tmp_path / "children").mkdir()
    settings = EngineSettings(data=tmp_path, idle_seconds=0.5)
    async with EngineManager(settings, Children(tmp_path / "children")):
        yield tmp_path


def target_of(model: Path, engine: str = "torch") -> LocalTarget:
    files = {path.name: f"{number:064x}" for number, path in enumerate(sorted(model.iterdir()))}
    return LocalTarget(fingerprint="f" * 64, engine=engine, files=files, urls={name: name for name in files})


def fetch_from(model: Path):  # type: ignore[no-untyped-def]
    async def fetch(url: str, sha256: str) -> Path:
        return model / url

    return fetch


@pytest.fixture
def adapter(tmp_path: Path, tiny_model: Path) -> Path:
    policies = pytest.importorskip("tests.contract.policies")
    base = policies.make_policy(tmp_path / "base", 0)
    policies.make_adapter(tmp_path / "adapter", base, 1)
    return tmp_path / "adapter"


def with_adapter(target: LocalTarget, adapter: Path) -> LocalTarget:
    files = {path.name: f"{number + 100:064x}" for number, path in enumerate(sorted(adapter.iterdir()))}
    over = LocalTarget(fingerprint="a" * 64, engine="torch", files=files, urls={name: name for name in files})
    return target.model_copy(update={"adapter": over})


def engine_pids(data: Path) -> list[int]:
    return [int(path.stem) for path in (data / "children").glob("*.json")]


async def ask(engine: EngineAddress, model: str = "hub/tiny") -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "logprobs": True}
    async with httpx.AsyncClient(headers=engine.headers) as http:
        return await http.post(f"{engine.base_url}/chat/completions", json=body)


async def test_runs_share_an_engine_however_busy_one_that_was_killed_is_started_again_and_ends_when_idle(
    data: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy, late = EngineProcess.healthy, iter([False, False])

    async def busy(process: EngineProcess) -> bool:
        return next(late, True) and await healthy(process)

    target, fetch = target_of(tiny_model), fetch_from(tiny_model)
    async with acquire("hub/tiny", target, data=data, fetch=fetch) as first:
        (engine,) = engine_pids(data)
        with monkeypatch.context() as patch:
            patch.setattr(EngineProcess, "healthy", busy)
            async with acquire("hub/tiny", target, data=data, fetch=fetch) as second:
                assert (second, engine_pids(data), next(late, "asked twice")) == (first, [engine], "asked twice")
                assert (await ask(first)).status_code == 200
        os.killpg(engine, signal.SIGKILL)
    async with acquire("hub/tiny", target, data=data, fetch=fetch) as again:
        assert (await ask(again)).status_code == 200
        assert engine not in engine_pids(data)
    async with asyncio.timeout(20):
        while engine_pids(data):
            await asyncio.sleep(0.1)


@pytest.mark.matrix
async def test_an_adapter_is_served_over_its_base_by_its_own_name(data: Path, tmp_path: Path, adapter: Path) -> None:
    base = tmp_path / "base"

    async def fetch(url: str, sha256: str) -> Path:
        return (adapter if (adapter / url).exists() else base) / url

    target = target_of(base)
    async with (
        acquire("alice/base", target, data=data, fetch=fetch) as plain,
        acquire("alice/sort", with_adapter(target, adapter), data=data, fetch=fetch) as adapted,
    ):
        answers = [await ask(plain, "alice/base"), await ask(adapted, "alice/sort")]
        assert [answer.status_code for answer in answers] == [200, 200]
        first, second = (answer.json()["choices"][0]["logprobs"]["content"][0]["logprob"] for answer in answers)
        assert first != second
        assert (await ask(plain, "alice/sort")).status_code == 404


def test_vllm_is_told_of_the_adapter_and_a_rank_that_holds_it(tmp_path: Path, adapter: Path) -> None:
    request = EngineRequest(fingerprint="f", engine="vllm", directory=tmp_path, name="alice/sort", adapter=adapter)
    command = " ".join(vllm_command(request, 1, "python", ()))
    assert f"--served-model-name base --enable-lora --max-lora-rank 8 --lora-modules alice/sort={adapter}" in command


def test_the_operators_arguments_come_after_ours(tmp_path: Path) -> None:
    gpu = Gpu(index=0, uuid="GPU-0", name="H100", memory_mb=80_000, free_mb=80_000)
    own = ("--dtype", "float16", "--max-model-len", "512")
    command = PolicyEngineStart("vllm", tmp_path, "policy", vllm_arguments=own, gpus=(gpu,)).command(1)
    for option, value in zip(own[::2], own[1::2], strict=True):
        given = [after for before, after in pairwise(command) if before == option]
        assert (len(given), given[-1]) == (2, value)


@pytest.mark.matrix
async def test_a_broken_model_is_refused_with_the_engines_last_lines(data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    with pytest.raises(EngineFailed, match="last lines"):
        async with acquire("hub/broken", target_of(broken), data=data, fetch=fetch_from(broken)):
            pass


async def test_vllm_is_refused_with_a_hint_where_it_is_not_installed(data: Path, tiny_model: Path) -> None:
    with pytest.raises(EngineFailed) as caught:
        async with acquire("hub/tiny", target_of(tiny_model, "vllm"), data=data, fetch=fetch_from(tiny_model)):
            pass
    assert "WORKER_VLLM_PYTHON" in caught.value.hint


async def test_a_file_name_that_leaves_the_model_directory_is_refused(data: Path, tiny_model: Path) -> None:
    target = target_of(tiny_model).model_copy(update={"files": {"../evil": "0" * 64}, "urls": {"../evil": "x"}})
    with pytest.raises(EngineFailed, match="evil"):
        async with acquire("hub/tiny", target, data=data, fetch=fetch_from(tiny_model)):
            pass


async def test_the_gpu_of_an_idle_engine_is_given_to_whoever_needs_it(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(
        "workers.inference.manager.vllm_command", lambda request, port, *_, gpus: torch_command(request, port)
    )
    install(tmp_path / "bin", monkeypatch)
    (tmp_path / "children").mkdir()
    gpus = GpuPool("0")
    await gpus.look()
    settings = EngineSettings(data=tmp_path, vllm_python="python")
    async with EngineManager(settings, Children(tmp_path / "children"), gpus) as manager:
        target, fetch = target_of(tiny_model, "vllm"), fetch_from(tiny_model)
        async with acquire("hub/tiny", target, data=tmp_path, fetch=fetch) as engine:
            assert (engine.gpus, gpus.free, manager.idle_gpus) == (1, (), ())
            assert await manager.take_gpus(GpuNeed(count=1)) is None
            assert manager.counts() == EngineCounts(serving=1)
        while not manager.idle_gpus:
            await asyncio.sleep(0.01)
        assert manager.counts() == EngineCounts(idle=1)
        async with acquire("hub/other", target, data=tmp_path, fetch=fetch) as other:
            assert (await ask(other, "hub/other")).status_code == 200
        while not manager.idle_gpus:
            await asyncio.sleep(0.01)
        assert await manager.take_gpus(GpuNeed(count=2)) is None
        assert manager.idle_gpus
        assert await manager.take_gpus(GpuNeed(count=1)) == gpus.known
        assert engine_pids(tmp_path) == []


async def test_the_gpus_of_an_engine_that_the_host_could_not_start_are_free_again(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install(tmp_path / "bin", monkeypatch)
    (tmp_path / "children").mkdir()
    (tmp_path / "engine-home").write_text("in the place of the folder")
    gpus = GpuPool("0")
    await gpus.look()
    settings = EngineSettings(data=tmp_path, vllm_python="python")
    async with EngineManager(settings, Children(tmp_path / "children"), gpus):
        target, fetch = target_of(tiny_model, "vllm"), fetch_from(tiny_model)
        with pytest.raises(EngineFailed, match="could not start the engine") as failed:
            async with acquire("hub/tiny", target, data=tmp_path, fetch=fetch):
                pass
    assert (failed.value.busy, gpus.free) == (True, gpus.known)


async def test_a_model_has_all_gpus_that_were_asked_for_or_is_told_when_it_can_have_them(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    split: list[int] = []

    def command(request: EngineRequest, port: int, *_: object, gpus: int) -> Sequence[str]:
        split.append(gpus)
        return torch_command(request, port)

    monkeypatch.setattr("workers.inference.manager.vllm_command", command)
    install(tmp_path / "bin", monkeypatch)
    (tmp_path / "children").mkdir()
    gpus = GpuPool("all")
    await gpus.look()
    settings = EngineSettings(data=tmp_path, vllm_python="python")
    async with EngineManager(settings, Children(tmp_path / "children"), gpus):
        two = target_of(tiny_model, "vllm").model_copy(update={"gpus": 2})
        four, fetch = two.model_copy(update={"gpus": 4}), fetch_from(tiny_model)
        held = gpus.take(GpuNeed(count=1))
        for target, busy in ((two, True), (four, False)):
            with pytest.raises(EngineFailed, match="GPUs") as refused:
                async with acquire("hub/tiny", target, data=tmp_path, fetch=fetch):
                    pass
            assert refused.value.busy is busy
        gpus.give_back(held or ())
        async with acquire("hub/tiny", two, data=tmp_path, fetch=fetch):
            assert gpus.busy == gpus.known
    assert split == [2]
