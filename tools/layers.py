"""Draws docs/images/layers.svg: the layers of the package, from the import rules in pyproject.toml.

A purpose is the first line of a module or of a folder's ``__init__.py``. Run ``python tools/layers.py`` after
import rules or those lines have changed.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "images" / "layers.svg"

#: In pixels, as are all numbers of the picture.
WIDTH, MARGIN, GAP, INNER_GAP, PADDING, LINE, COLUMN = 800, 24, 6, 4, 10, 15, 122
#: Width of a character of a purpose in the widest of its fonts.
TEXT_PIXELS = 6.5

STYLE = """
  .page { fill: #ffffff; stroke: #d5dae1; }
  .title, .name, .rule { fill: #1b2430; }
  .purpose { fill: #4a5563; }
  .arrow { stroke: #7b8794; stroke-width: 1.5; fill: none; }
  .tip { fill: #7b8794; }
  .box { stroke-width: 1; }
  .client { fill: #e8f0fc; stroke: #9dbdea; }
  .service { fill: #e6f5ec; stroke: #93cba9; }
  .attribution { fill: #fdf1de; stroke: #e5bf80; }
  .shared { fill: #f2f4f7; stroke: #c3cad3; }
  .inner { fill: #ffffff; fill-opacity: 0.75; }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
  .title { font-size: 17px; font-weight: 600; }
  .name { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
          font-size: 13px; font-weight: 600; }
  .purpose, .rule { font-size: 12px; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #161b22; stroke: #343c47; }
    .title, .name, .rule { fill: #e8edf3; }
    .purpose { fill: #b3bdc9; }
    .client { fill: #182b48; stroke: #3b659f; }
    .service { fill: #15342a; stroke: #36795c; }
    .attribution { fill: #3b2c14; stroke: #8d6a2c; }
    .shared { fill: #232a33; stroke: #4a5563; }
    .inner { fill: #0d1117; fill-opacity: 0.45; }
  }
"""


@dataclass(frozen=True)
class Module:
    """A folder or file of the package: what it is for, whose it is, and the layers inside it."""

    name: str
    purpose: str
    kind: str
    layers: tuple[tuple[Module, ...], ...] = ()


def read_layers() -> list[tuple[Module, ...]]:
    """Return the layers of the package, highest first; modules beside each other share a layer."""
    contracts = {contract["id"]: contract for contract in _contracts()}
    client = {name.rpartition(".")[2] for name in contracts["client"]["source_modules"]}
    kinds = dict.fromkeys(client, "client") | {"service": "service", "attribution": "attribution"}
    layers = []
    for names in _names(contracts["layers"]):
        row = [_module("attrib_ds", name, kinds.get(name, "shared")) for name in names]
        for place, module in enumerate(row):
            inside = contracts.get(f"{names[place]}-layers")
            if inside:
                rows = (
                    tuple(_module(f"attrib_ds.{names[place]}", name, module.kind) for name in inner)
                    for inner in _names(inside)
                )
                row[place] = replace(module, layers=tuple(rows))
        layers.append(tuple(row))
    return layers


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return contracts


def _names(contract: dict[str, Any]) -> list[list[str]]:
    """Return the names in each layer of a contract, without those of the interpreter."""
    rows = [[name.strip() for name in row.split("|")] for row in contract["layers"]]
    return [row for row in rows if not row[0].startswith("__")]


def _module(package: str, name: str, kind: str) -> Module:
    path = ROOT / package.replace(".", "/") / name
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    purpose = text.partition("\n")[0].partition(";")[0].replace("`", "").rstrip(".")
    return Module(f"{name}/" if path.is_dir() else f"{name}.py", _without_name(purpose, name), kind)


def _without_name(purpose: str, name: str) -> str:
    """Leave out a name that a purpose repeats: ``Contract: each operation`` is ``Each operation``."""
    first, _, rest = purpose.partition(": ")
    return rest[0].upper() + rest[1:] if rest and first.lower() == name else purpose


def draw(layers: list[tuple[Module, ...]]) -> str:
    """Return the picture as SVG."""
    left, right, top = MARGIN + 34, WIDTH - MARGIN, 106
    parts: list[str] = []
    y = top
    for row in layers:
        drawn, height = _row(row, left, right, y, gap=GAP)
        parts += drawn
        y += height + GAP
    bottom = y - GAP
    x = MARGIN + 12
    arrow = [
        f'<path class="arrow" d="M{x} {top} V{bottom - 8}"/>',
        f'<path class="tip" d="M{x} {bottom} l-5 -10 h10 z"/>',
        f'<text class="rule" transform="translate({x - 6} {(top + bottom) // 2}) rotate(-90)" '
        'text-anchor="middle">imports go down, never up</text>',
    ]
    head = [
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{bottom + MARGIN - 1}" rx="10"/>',
        f'<text class="title" x="{MARGIN}" y="38">The layers of attrib_ds</text>',
        *_legend(MARGIN, 63),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + MARGIN}" '
            f'width="{WIDTH}" height="{bottom + MARGIN}" role="img">',
            "<title>The layers of attrib_ds: each imports those below it</title>",
            f"<style>{STYLE}</style>",
            *head,
            *arrow,
            *parts,
            "</svg>\n",
        ]
    )


def _legend(x: int, y: int) -> list[str]:
    rules = {contract["id"]: contract["name"] for contract in _contracts()}
    texts = {
        "client": rules["client"],
        "service": "The service, embedded or over HTTP",
        "attribution": rules["attribution"],
        "shared": "Shared by all of them",
    }
    parts = []
    for number, (kind, text) in enumerate(texts.items()):
        left, base = x + number // 2 * 290, y + number % 2 * 22
        parts.append(
            f'<rect class="box {kind}" x="{left + 0.5}" y="{base - 10.5}" width="12" height="12" rx="3"/>'
        )
        parts.append(f'<text class="rule" x="{left + 20}" y="{base}">{escape(text)}</text>')
    return parts


def _row(row: tuple[Module, ...], left: float, right: float, y: int, *, gap: int) -> tuple[list[str], int]:
    """Draw the modules of one layer beside each other; return them and their height."""
    width = (right - left - gap * (len(row) - 1)) / len(row)
    is_inner = gap < GAP
    column = 0 if len(row) > 1 else COLUMN - PADDING if is_inner else COLUMN
    boxes = [
        _Box(module, left + place * (width + gap), width, column, is_inner)
        for place, module in enumerate(row)
    ]
    height = max(box.height for box in boxes)
    return [part for box in boxes for part in box.draw(y, height)], height


@dataclass(frozen=True)
class _Box:
    """A module in the picture. Its purpose is beside a column with its name, or below it without a column."""

    module: Module
    x: float
    width: float
    column: int
    is_inner: bool

    @property
    def lines(self) -> list[str]:
        """The purpose, wrapped."""
        room = self.width - 2 * PADDING - self.column
        return textwrap.wrap(self.module.purpose, int(room / TEXT_PIXELS), break_on_hyphens=False)

    @property
    def own_height(self) -> int:
        """Height of the name and the purpose."""
        margin = 9 if self.is_inner else 13
        return margin + LINE * len(self.lines) + (0 if self.column else LINE + 1)

    @property
    def height(self) -> int:
        """Height with the layers inside."""
        inside = [self._inner(row, 0)[1] + INNER_GAP for row in self.module.layers]
        return self.own_height + sum(inside) + (6 if inside else 0)

    def _inner(self, row: tuple[Module, ...], y: int) -> tuple[list[str], int]:
        return _row(row, self.x + PADDING, self.x + self.width - PADDING, y, gap=INNER_GAP)

    def draw(self, y: int, height: int) -> list[str]:
        """Draw the box, as high as the highest of its layer."""
        kind = f"{self.module.kind} inner" if self.is_inner else self.module.kind
        x, base = self.x + PADDING, y + (16 if self.is_inner else 18)
        parts = [
            f'<rect class="box {kind}" x="{self.x + 0.5:g}" y="{y + 0.5}" width="{self.width - 1:g}" '
            f'height="{height - 1}" rx="5"/>',
            f'<text class="name" x="{x:g}" y="{base}">{escape(self.module.name)}</text>',
        ]
        left, top = (x + self.column, base) if self.column else (x, base + LINE + 1)
        parts += [
            f'<text class="purpose" x="{left:g}" y="{top + number * LINE}">{escape(line)}</text>'
            for number, line in enumerate(self.lines)
        ]
        inside = y + self.own_height + 1
        for row in self.module.layers:
            drawn, row_height = self._inner(row, inside)
            parts += drawn
            inside += row_height + INNER_GAP
        return parts


if __name__ == "__main__":
    TARGET.write_text(draw(read_layers()), encoding="utf-8")
