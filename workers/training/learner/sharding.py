"""Layers' weights, gradients and optimiser state split over processes (FSDP2). What is outside of layers is replicated.

Embeddings, head, last norm and adapters stay whole on each process, and their gradients are summed once a step: the
head makes its own gradient outside of autograd, and adapters are small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.model import Policy, compute_dtype
from workers.training.learner.world import World


def loading_dtype(config: LearnerConfig, world: World, device: torch.device) -> torch.dtype:
    """What weights are loaded as: split ones that are trained stay fp32 and are cast for each use by FSDP."""
    masters = config.mode == "full" and world.size > 1
    return torch.float32 if masters else compute_dtype(config, device)


def shard(policy: Policy, world: World, *, compute: torch.dtype, hybrid: bool = False) -> None:
    """Split the layers' weights; a no-op for one process. Gradients are summed over processes, not averaged.

    hybrid: split over the processes of each host and the same on all hosts, between which only gradients go.
    They are exchanged after every micro-batch: until then each process holds all of a layer's in fp32, and to wait for
    the step's last one would be to hold the whole model's.
    """
    if world.size == 1:
        return
    layers: list[nn.Module] = list(policy.body.layers)
    mesh = mesh_of(policy.device.type, world, hybrid=hybrid)
    precision = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32)
    for layer in layers:
        adapters = {p for p in layer.parameters() if policy.adapters and p.requires_grad}
        fully_shard(layer, mesh=mesh, mp_policy=precision, ignored_params=adapters)
    inside = {p for layer in layers for p in layer.parameters()}
    outside = {p for p in policy.model.parameters() if p not in inside}
    adapters = {p for p in inside if policy.adapters and p.requires_grad}
    for parameter in outside:
        parameter.data = parameter.data.to(compute)
    fully_shard(policy.body, mesh=mesh, mp_policy=precision, ignored_params=outside | adapters)
    for module in policy.body.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other


def mesh_of(device_type: str, world: World, *, hybrid: bool) -> DeviceMesh:
    """How the processes are laid out: [hosts, processes of each] when hybrid, else [all]."""
    if hybrid and 1 < world.local < world.size:
        hosts = world.size // world.local
        return init_device_mesh(device_type, (hosts, world.local), mesh_dim_names=("hosts", "local"))
    return init_device_mesh(device_type, (world.size,))  # else the GPUs of a machine that has some


def copies(tensor: DTensor) -> int:
    """On how many processes each part of a split tensor is the same."""
    sizes = [tensor.device_mesh.size(dim) for dim, place in enumerate(tensor.placements) if place.is_replicate()]
    return math.prod(sizes)


def sum_replicated(masters: Mapping[str, nn.Parameter], world: World) -> None:
    """Add up the gradients of what every process holds whole."""
    if world.size == 1:
        return
    for master in masters.values():
        if isinstance(master, DTensor):
            continue
        if master.grad is None:  # every process must take part
            master.grad = torch.zeros_like(master)
        world.add(master.grad)


def whole(tensor: Any) -> torch.Tensor:
    """All of a tensor that may be split; every process must call it."""
    result: torch.Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return result
