"""Draws a value for a notebook: what it is, and its properties in two columns."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def card(title: str, properties: Mapping[str, str], *, note: str = "") -> str:
    """Return a title, properties and a note as HTML, which takes its colours and type from the page.

    Examples
    --------
    >>> card("Project", {"id": "my-shop"})
    '<div><b>Project</b><table><tr><th style="text-align: left">id</th><td>my-shop</td></tr></table></div>'
    """
    rows = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in properties.items()
    )
    table = f"<table>{rows}</table>" if rows else ""
    ending = f"<div>{escape(note)}</div>" if note else ""
    return f"<div><b>{escape(title)}</b>{table}{ending}</div>"
