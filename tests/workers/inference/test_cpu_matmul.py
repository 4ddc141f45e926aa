"""oneDNN's products agree with torch's own, and are used where they pay."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from workers.inference import cpu_matmul
from workers.inference.cpu_matmul import CpuLinear, prefers_onednn, product, rounded, use_fast_products

pytestmark = pytest.mark.torch
LARGE = (1001, 512, 700)
FEW = (64, 256, 384)
SMALL = (7, 16, 24)


@pytest.fixture(autouse=True)
def _with_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine where MKL is preferred."""
    monkeypatch.setattr(cpu_matmul, "ONEDNN", True)


def operands(rows: int, size: int, out: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(rows, size), torch.randn(out, size) / size**0.5


def close(one: Tensor | None, other: Tensor | None) -> None:
    assert one is not None
    assert other is not None
    one, other = one.detach(), other.detach()
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()))


@pytest.mark.parametrize(("shape", "pays"), [(FEW, True), (LARGE, True), (SMALL, False)])
def test_a_product_is_that_of_torch(shape: tuple[int, int, int], pays: bool) -> None:
    x, weight = operands(*shape)
    onednn = mock.Mock(side_effect=cpu_matmul._onednn)
    with mock.patch.object(cpu_matmul, "_onednn", onednn):
        close(product(x, weight), linear(x.double(), weight.double()).float())
    assert onednn.called == pays


def test_where_mkl_is_faster_the_product_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_matmul, "ONEDNN", False)
    x, weight = operands(*LARGE)
    assert torch.equal(product(x, weight), linear(x, weight))


@pytest.mark.parametrize(
    ("vendor", "mkl", "onednn"),
    [("GenuineIntel", True, False), ("GenuineIntel", False, True), ("AuthenticAMD", True, True)],
)
def test_only_on_intels_own_processors_mkl_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vendor: str, mkl: bool, onednn: bool
) -> None:
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    (tmp_path / "cpuinfo").write_text(f"vendor_id\t: {vendor}\n")
    assert prefers_onednn(tmp_path / "cpuinfo") == onednn
    assert prefers_onednn(tmp_path / "none")


def test_neither_side_of_a_product_needs_to_be_contiguous() -> None:
    x, weight = operands(700, 1024, 512)
    close(product(x.t(), weight[:, :700].flip(0).t().contiguous().t()), linear(x.t(), weight[:, :700].flip(0)))


def test_rows_are_rounded_to_few_sizes() -> None:
    sizes = {rounded(rows) for rows in range(1, 8193)}
    assert len(sizes) == 56
    assert all(rows <= rounded(rows) <= max(rows + 15, rows * 9 / 8) for rows in range(1, 8193))
    assert {rounded(size) for size in sizes} == sizes


@pytest.mark.parametrize("rows", [64, 77])  # one of the sizes, and one that is filled up
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_layer_has_the_gradients_of_torchs(rows: int, bias: bool, frozen: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(256, 384, bias=bias)
    plain.weight.requires_grad_(not frozen)
    fast = nn.Linear(256, 384, bias=bias)
    fast.load_state_dict(plain.state_dict())
    fast.weight.requires_grad_(not frozen)
    use_fast_products(fast)
    assert type(fast) is CpuLinear
    outputs, inputs = [], []
    for layer in (plain, fast):
        x = torch.linspace(-1, 1, 2 * rows * 256).reshape(2, rows, 256).sin().requires_grad_()
        outputs.append(layer(x))
        outputs[-1].backward(torch.linspace(-1, 1, outputs[-1].numel()).reshape(outputs[-1].shape))
        inputs.append(x)
    close(outputs[1], outputs[0])
    close(inputs[1].grad, inputs[0].grad)
    if frozen:
        assert fast.weight.grad is None
    else:
        close(fast.weight.grad, plain.weight.grad)
    if bias:
        close(fast.bias.grad, plain.bias.grad)


def test_only_plain_linear_layers_in_fp32_are_changed() -> None:
    class Quantised(nn.Linear):
        """Of another library."""

    model = nn.Sequential(Quantised(8, 8), nn.Linear(256, 384).double(), nn.Linear(256, 384).bfloat16())
    use_fast_products(model)
    assert [type(layer) for layer in model] == [Quantised, CpuLinear, CpuLinear]
    for layer, dtype in ((model[1], torch.float64), (model[2], torch.bfloat16)):
        x = torch.ones(64, 256, dtype=dtype)
        assert torch.equal(layer(x), linear(x, layer.weight, layer.bias))
