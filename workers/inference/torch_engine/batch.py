"""The running batch: sequences of different lengths decoded together, left-padded, joining and leaving at any step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache

from workers.inference.torch_engine.adapters import Adapter, Adapters


class RunningBatch:
    """Keys, values, mask and next-token logits of the sequences being decoded.

    mask: [B, T], 1 where a row has a token; a row's tokens end at the last column, so its position is mask.sum() - 1.
    logits: [B, V], of each row's next token.
    """

    def __init__(self, model: Any, adapters: Adapters | None = None) -> None:
        self.model = model
        self.adapters = adapters or Adapters(model)
        self.rows: list[Adapter | None] = []  # the adapter of each row
        self.cache: Any = None  # a DynamicCache, whose layers are typed for kinds that are not used here
        self.mask: Tensor = torch.zeros(0, 0, dtype=torch.long)
        self.logits: Tensor = torch.zeros(0, 0)

    def __len__(self) -> int:
        return self.mask.shape[0]

    @torch.inference_mode()
    def join(self, prompts: list[list[int]], adapters: list[Adapter | None] | None = None) -> None:
        """Prefill `prompts` (each different one once: a group's are the same) and append them as the last rows."""
        joining = adapters or [None] * len(prompts)
        first, copies = distinct(prompts, joining)
        self._append(*self._prefill([prompts[row] for row in first], [joining[row] for row in first], copies))
        self.rows += joining

    def _prefill(
        self, prompts: list[list[int]], adapters: list[Adapter | None], copies: list[int]
    ) -> tuple[DynamicCache, Tensor, Tensor]:
        """Cache, mask and logits of the rows prompts[copies[0]], prompts[copies[1]], ..."""
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        cache = DynamicCache()
        self.adapters.use(adapters)
        logits = self._forward(ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), cache)
        if len(copies) == len(prompts):
            return cache, mask, logits
        index = torch.tensor(copies)
        return _take(cache, index), mask[index], logits[index]

    def _append(self, cache: DynamicCache, mask: Tensor, logits: Tensor) -> None:
        if self.cache is None or len(self) == 0:
            self.cache, self.mask, self.logits = cache, mask, logits
            return
        width = max(self.mask.shape[1], mask.shape[1])
        self.cache = _merge(self.cache, cache, width)
        self.mask = torch.cat([_left_pad(self.mask, width), _left_pad(mask, width)])
        self.logits = torch.cat([self.logits, logits])

    @torch.inference_mode()
    def advance(self, tokens: list[int]) -> None:
        """Feed each row its sampled token and compute the next logits."""
        self.mask = torch.cat([self.mask, torch.ones(len(self), 1, dtype=torch.long)], dim=1)
        positions = self.mask.sum(-1, keepdim=True) - 1
        self.adapters.use(self.rows)
        self.logits = self._forward(torch.tensor(tokens)[:, None], self.mask, positions, self.cache)

    @torch.inference_mode()
    def keep(self, rows: list[int]) -> None:
        """Drop every row but `rows`, and the columns that became padding for all of them."""
        index = torch.tensor(rows, dtype=torch.long)
        self.rows = [self.rows[row] for row in rows]
        self.mask, self.logits = self.mask[index], self.logits[index]
        start = int(self.mask.shape[1] - self.mask.sum(-1).max()) if rows else self.mask.shape[1]
        self.mask = self.mask[:, start:]
        self.cache = _take(self.cache, index, start)

    def _forward(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        """Logits of the last column, [B, V]; `cache` grows in place."""
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits


def distinct(prompts: list[list[int]], adapters: list[Adapter | None]) -> tuple[list[int], list[int]]:
    """Where each different (prompt, adapter) is first, and for every row which of these it is."""
    numbers: dict[tuple[tuple[int, ...], int], int] = {}
    first: list[int] = []
    copies: list[int] = []
    for row, (prompt, adapter) in enumerate(zip(prompts, adapters, strict=True)):
        key = tuple(prompt), id(adapter)
        if key not in numbers:
            numbers[key] = len(first)
            first.append(row)
        copies.append(numbers[key])
    return first, copies


def _take(cache: Any, rows: Tensor, start: int = 0) -> DynamicCache:
    """Some rows of a cache, from a column on."""
    taken = DynamicCache()
    for number, layer in enumerate(cache.layers):
        taken.update(layer.keys[rows][:, :, start:], layer.values[rows][:, :, start:], number)
    return taken


def _left_pad(mask: Tensor, width: int) -> Tensor:
    return pad(mask, (width - mask.shape[1], 0))


def _merge(first: Any, second: Any, width: int) -> DynamicCache:
    """Both caches' rows in one, left-padded to `width` columns ([B, H, T, D] a layer)."""
    merged = DynamicCache()
    for number, (a, b) in enumerate(zip(first.layers, second.layers, strict=True)):
        keys = [pad(x, (0, 0, width - x.shape[2], 0)) for x in (a.keys, b.keys)]
        values = [pad(x, (0, 0, width - x.shape[2], 0)) for x in (a.values, b.values)]
        merged.update(torch.cat(keys), torch.cat(values), number)
    return merged
