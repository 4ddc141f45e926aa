"""How a run of several hosts is cut, what each host needs, and which hosts are enough."""

from __future__ import annotations

from typing import Any

import pytest
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.training.cluster_need import ClusterSplit, cluster_split, hosts_left
from envhub.protocol.training.gpu_need import (
    MB,
    RESERVE,
    BadWish,
    engine_bytes,
    engine_of,
    gpu_need,
    gpu_sizes,
    learner_bytes,
)
from envhub.protocol.training.shapes import shape_of_name
from envhub.protocol.training.trainer import Engine, TrainerTable

from tests.envhub.protocol.training.test_gpu_need import config


@pytest.mark.parametrize(
    ("wishes", "engine", "split", "by_host"),
    [({"hosts": 2}, "vllm", (2, 2, 1, 2, 1), (2, 2)),
     ({"hosts": 2}, "torch", (2, 2, 1, 2, 0), (1, 1)),
     ({"hosts": 2, "train_gpus": 4, "engine_gpus": 4}, "vllm", (2, 4, 2, 2, 2), (4, 4)),
     ({"hosts": 2, "engines": 3}, "vllm", (2, 2, 1, 3, 1), (3, 2)),
     ({"hosts": 3, "engines": 1, "engine_gpus": 4}, "vllm", (3, 3, 1, 1, 4), (5, 1, 1)),
     ({"hosts": 2, "engine_hosts": 2}, "vllm", (2, 2, 1, 1, 2, 0, 2), (2, 2)),
     ({"hosts": 2, "engine_hosts": 2, "engine_gpus": 16}, "vllm", (2, 2, 1, 1, 16, 0, 2), (9, 9)),
     ({"hosts": 4, "engine_hosts": 2, "engine_gpus": 8}, "vllm", (4, 4, 1, 2, 4, 0, 2), (3, 3, 3, 3)),
     ({"hosts": 3, "engine_hosts": 2}, "vllm", (3, 3, 1, 1, 2, 0, 2), (2, 2, 1)),
     ({"hosts": 3, "engine_hosts": 2, "engines": 2, "engine_gpus": 8}, "vllm", (3, 3, 1, 2, 4, 0, 2), (5, 3, 3))],
)  # fmt: skip
def test_each_host_has_as_many_learner_processes_and_engines_go_round(
    wishes: dict[str, int], engine: Engine, split: tuple[int, ...], by_host: tuple[int, ...]
) -> None:
    found = cluster_split(TrainerTable(**wishes), engine)  # type: ignore[arg-type]
    assert found == ClusterSplit(*split)
    assert found.gpus_by_host == by_host
    assert found.count == sum(by_host)


def test_a_split_is_said_in_words() -> None:
    wide = TrainerTable(hosts=2, train_gpus=4, engine_gpus=4)
    assert cluster_split(wide, "vllm").words() == "on 2 hosts: 4 learner processes, 2 engines of 2 GPUs"
    assert (
        cluster_split(TrainerTable(hosts=2, engines=1), "torch").words() == "on 2 hosts: 2 learner processes, 1 engine"
    )


def test_an_engine_over_hosts_has_different_ones_and_an_equal_share_on_each() -> None:
    split = cluster_split(TrainerTable(hosts=3, engines=4, engine_hosts=2, engine_gpus=8), "vllm")
    assert [split.hosts_of(engine) for engine in range(4)] == [(0, 1), (2, 0), (1, 2), (0, 1)]
    assert [split.engine_parts(host) for host in range(3)] == [3, 3, 2]
    assert split.gpus_by_host == (4, 4, 3)
    assert split.words() == "on 3 hosts: 3 learner processes, 4 engines of 2 GPUs over 2 hosts"
    assert hosts_left(split.need(), [[80] * 4, [80] * 4, [80] * 3]) == [[], [], []]
    assert hosts_left(split.need(), [[80] * 8, [80] * 3, [80] * 3]) is None
    on_cpus = ClusterSplit(hosts=2, ranks=2, ranks_per_host=1, engines=1, engine_gpus_each=0, engine_hosts=2)
    assert on_cpus.words() == "on 2 hosts: 2 learner processes, 1 engine of 2 hosts"


@pytest.mark.parametrize(
    ("wishes", "message"),
    [({"engine_hosts": 2}, r"engine_hosts must be at most hosts \(1\)"),
     ({"hosts": 2, "engine_hosts": 3}, r"engine_hosts must be at most hosts \(2\)"),
     ({"hosts": 2, "engine_hosts": 2, "engine": "torch"}, 'engine_hosts > 1 needs engine = "vllm"'),
     ({"hosts": 2, "engine_hosts": 2, "deterministic": True}, 'engine_hosts > 1 needs engine = "vllm"'),
     ({"hosts": 2, "engine_hosts": 2, "extra_engines": 1}, "extra_engines needs engine_hosts = 1"),
     ({"hosts": 4, "engine_hosts": 2, "engine_gpus": 6}, r"a multiple of 4 \(engines x engine_hosts\)")],
)  # fmt: skip
def test_what_an_engine_over_hosts_cannot_be_is_said(wishes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainerTable(**wishes)


def test_only_vllm_spans_hosts_whatever_the_models_own_engine_is() -> None:
    assert engine_of(TrainerTable(hosts=2, engine_hosts=2), "torch") == "vllm"
    assert engine_of(TrainerTable(hosts=2), "torch") == "torch"


def test_extra_engines_are_not_asked_of_the_cluster() -> None:
    wide = TrainerTable(hosts=2, extra_engines=3)
    assert cluster_split(wide, "vllm").gpus_by_host == (2, 2)
    assert cluster_split(wide, "vllm").words().endswith("2 engines of 1 GPU and at most 3 more where there is room")
    with pytest.raises(ValueError, match="extra_engines needs hosts > 1"):
        TrainerTable(extra_engines=1)


@pytest.mark.parametrize(
    ("by_host", "hosts", "left"),
    [((2, 2), [[80] * 2, [80] * 2], [[], []]), ((3, 1), [[80], [80] * 3], [[], []]),
     ((2, 2), [[80] * 4, []], None), ((1, 1), [[80] * 8], None), ((3, 1), [[80] * 2, [80] * 2], None),
     ((0, 0), [[], []], [[], []]), ((0, 0), [[]], None),
     ((2, 1), [[80] * 8, [80] * 2, [80]], [[80] * 8, [], []]),  # the tightest hosts: eight stay together
     ((1, 1), [[24, 80], [24, 80]], [[24], [24]]), ((1, 1), [[24], [80]], None),  # 40 MB of each are needed
     ((1, 1), [[0, 0], [0]], [[0], []])],
)  # fmt: skip
def test_hosts_are_enough_when_each_holds_its_share(
    by_host: tuple[int, ...], hosts: list[list[int]], left: list[list[int]] | None
) -> None:
    assert hosts_left(GpuNeed(count=sum(by_host), memory_mb=40, by_host=by_host), hosts) == left


def gpu_memory(**trainer: Any) -> int:
    return gpu_need(config(**trainer), shape_of_name("4B"), "vllm").memory_mb


def test_the_learner_is_split_over_all_hosts_and_an_engine_is_whole() -> None:
    shape = shape_of_name("4B")
    assert shape is not None
    sizes = gpu_sizes(config(mode="full"), shape)
    need = gpu_need(config(mode="full", hosts=2, train_gpus=4, engine_gpus=4), shape, "vllm")
    assert need.count == 8
    assert need.memory_mb == -(-max(learner_bytes(sizes, 4), engine_bytes(sizes, 2)) // MB)
    assert gpu_memory(hosts=2, train_gpus=16, engine_gpus=2) > gpu_memory(hosts=2, train_gpus=16, engine_gpus=8)


def test_heads_are_split_over_the_gpus_of_one_engine() -> None:
    shape = shape_of_name("4B")
    assert gpu_need(config(hosts=2, engines=2, engine_gpus=16), shape, "vllm").count == 18
    with pytest.raises(BadWish, match=r"cannot be split over 3 GPUs: .* for each of 2 engines"):
        gpu_need(config(hosts=2, engines=2, engine_gpus=6), shape, "vllm")


def test_over_hosts_layers_are_split_and_heads_over_the_gpus_of_each() -> None:
    shape = shape_of_name("4B")
    assert shape is not None
    over = {"hosts": 2, "engine_hosts": 2}
    assert gpu_need(config(**over, engine_gpus=16), shape, "vllm").by_host == (9, 9)  # 8 heads over 8 GPUs each
    with pytest.raises(BadWish, match=r"cannot be split over 3 GPUs: .* on each host of an engine"):
        gpu_need(config(**over, engine_gpus=6), shape, "vllm")
    with pytest.raises(BadWish, match="the model's 36 layers cannot be split over 40 hosts"):
        gpu_need(config(hosts=40, engine_hosts=40), shape, "vllm")


def test_a_part_of_an_engine_needs_its_layers_and_an_embedding() -> None:
    shape = shape_of_name("4B")
    assert shape is not None
    sizes = gpu_sizes(config(), shape)
    whole = sizes.engine_weights + sizes.engine_cache
    embedding = 151_936 * 2560 * 2
    assert engine_bytes(sizes, 4, 2) == (whole // 2 + embedding) // 4 + RESERVE
    assert engine_bytes(sizes, 1, 5) == whole * 8 // 36 + embedding + RESERVE  # 8 of 36 layers where most are


def test_an_unknown_shape_asks_several_hosts_for_any_size() -> None:
    assert gpu_need(config(hosts=2, train_gpus=4), None, "vllm").count == 6
