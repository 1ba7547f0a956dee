"""Draws a tree of labels, as indented text or as HTML."""

from __future__ import annotations

import html
from dataclasses import dataclass


@dataclass(frozen=True)
class Branch:
    """A label and the branches below it.

    Parameters
    ----------
    label : str
        One line.
    branches : tuple of Branch
        In order.
    """

    label: str
    branches: tuple[Branch, ...] = ()


def to_text(root: Branch) -> str:
    """Draw a tree for a terminal.

    Parameters
    ----------
    root : Branch
        Its label comes first, unindented.

    Returns
    -------
    str
        One line per label.

    Examples
    --------
    >>> print(to_text(Branch("all of", (Branch("a"), Branch("any of", (Branch("b"), Branch("c")))))))
    all of
    ├── a
    └── any of
        ├── b
        └── c
    """
    return "\n".join([root.label, *_lines(root.branches)])


def to_html(root: Branch) -> str:
    """Draw a tree for a notebook, as nested lists.

    Parameters
    ----------
    root : Branch
        Its label comes first.

    Returns
    -------
    str
        HTML with escaped labels, in the colours and fonts of the page.

    Examples
    --------
    >>> to_html(Branch("a < b"))
    '<div class="attrib-predicate"><code>a &lt; b</code></div>'
    """
    return f'<div class="attrib-predicate">{_item(root)}</div>'


def _lines(branches: tuple[Branch, ...]) -> list[str]:
    lines: list[str] = []
    for position, branch in enumerate(branches, start=1):
        last = position == len(branches)
        lines.append(f"{'└' if last else '├'}── {branch.label}")
        lines.extend(f"{' ' if last else '│'}   {line}" for line in _lines(branch.branches))
    return lines


def _item(branch: Branch) -> str:
    label = html.escape(branch.label)
    if not branch.branches:
        return f"<code>{label}</code>"
    members = "".join(f"<li>{_item(below)}</li>" for below in branch.branches)
    return f'{label}<ul style="margin: 0; padding-left: 1.5em">{members}</ul>'
