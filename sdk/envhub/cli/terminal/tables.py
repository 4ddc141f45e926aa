"""Tables for people, as wide as the terminal: no name, number or id is ever cut or broken.

What does not fit gives way in this order: ids to their first characters, texts (wrapped, or cut where a caller says
so), columns, the least important first. Off a terminal nothing is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from envhub.cli.terminal.short_ids import is_whole, shortened

GAP = 2  # between columns
TEXT_WIDTH = 24  # of a text that gives way, at least
_NUMBER = re.compile(r"[\d.-]+(e[+-]?\d+)?%?")
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
Row = tuple[str, ...]


@dataclass(frozen=True)
class Fit:
    """What may become of a table's columns, by their names, on a terminal that is too narrow."""

    drop: tuple[str, ...] = ()  # the first is left out first
    wrap: tuple[str, ...] = ()  # texts of several words
    cut: tuple[str, ...] = ()  # texts whose beginning is enough


AS_IT_IS = Fit()


@dataclass(frozen=True)
class Grid:
    """Columns and rows as they are printed."""

    columns: Row
    rows: tuple[Row, ...]
    fit: Fit = AS_IT_IS
    broken: bool = False  # between words, in every column: the last resort

    def fitted(self, width: int) -> tuple[Grid, tuple[str, ...]]:
        """What to print on so many characters, and which columns are left out."""
        if self.width() <= width:
            return self, ()
        grid, dropped = self._with_short_ids(), []
        for name in self.fit.drop:
            if grid.least_width() <= width:
                break
            if name in grid.columns and len(grid.columns) > 1:
                grid = grid._without(name)
                dropped.append(name)
        broken = replace(grid, broken=True)
        return broken if grid.least_width() > width >= broken.least_width() else grid, tuple(dropped)

    def width(self) -> int:
        """With all texts in one line."""
        return sum(map(self._whole, range(len(self.columns)))) + GAP * (len(self.columns) - 1)

    def least_width(self) -> int:
        """With all texts as narrow as they get."""
        return sum(map(self.least, range(len(self.columns)))) + GAP * (len(self.columns) - 1)

    def least(self, index: int) -> int:
        """How narrow a column gets."""
        name, whole = self.columns[index], self._whole(index)
        if self.is_numeric(index) or not (self.broken or name in self.fit.wrap + self.fit.cut):
            return whole
        words = (word for row in self.rows for word in row[index].split())
        longest = max(map(cell_len, words), default=0)
        if name in self.fit.wrap + self.fit.cut:  # a text: a word in it may be broken, too
            longest = min(longest, TEXT_WIDTH) if name in self.fit.wrap else min(whole, TEXT_WIDTH)
        return max(len(name), longest)

    def is_numeric(self, index: int) -> bool:
        """Whether it stands at the right."""
        return all(_NUMBER.fullmatch(row[index]) for row in self.rows if row[index])

    def _whole(self, index: int) -> int:
        return max(map(cell_len, (self.columns[index], *(row[index] for row in self.rows))))

    def widths(self, width: int) -> list[int]:
        """Of the columns: each its least, and from left to right what is to spare."""
        spare, found = width - self.least_width(), []
        for index in range(len(self.columns)):
            taken = min(max(0, spare), self._whole(index) - self.least(index))
            found.append(self.least(index) + taken)
            spare -= taken
        return found

    def shown(self, row: Row, widths: list[int]) -> list[str]:
        """Its texts; of those that may be cut, what there is room for."""
        cuts = [name in self.fit.cut for name in self.columns]
        return [_cut(text, width) if cut else text for text, width, cut in zip(row, widths, cuts, strict=True)]

    def _with_short_ids(self) -> Grid:
        columns = [self._short(list(cells)) for cells in zip(*self.rows, strict=True)]
        return replace(self, rows=tuple(zip(*columns, strict=True)))

    def _short(self, cells: list[str]) -> list[str]:
        short = shortened([text for text in cells if is_whole(text)])
        return [short.get(text, text) for text in cells]

    def _without(self, name: str) -> Grid:
        at = self.columns.index(name)
        rows = tuple(row[:at] + row[at + 1 :] for row in self.rows)
        return replace(self, columns=self.columns[:at] + self.columns[at + 1 :], rows=rows)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + ELLIPSIS


def print_grid(grid: Grid, console: Console, wide: Console) -> tuple[str, ...]:
    """Print to `console`, or to `wide` what is wider in any case; tells which columns were left out."""
    fitted, dropped = grid.fitted(console.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    widths = fitted.widths(console.width)
    for index, (name, width) in enumerate(zip(fitted.columns, widths, strict=True)):
        justify: Literal["left", "right"] = "right" if fitted.is_numeric(index) else "left"
        table.add_column(name, justify=justify, overflow="fold", width=width)
    for row in fitted.rows:
        table.add_row(*(escape(text) for text in fitted.shown(row, widths)))
    (wide if fitted.least_width() > console.width else console).print(table)
    return dropped
