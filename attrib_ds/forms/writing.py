"""Writes a call as Python that somebody could have typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrib_ds

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDEST = 88


def write_call(function: str, subject: str, arguments: Mapping[str, str], *, result: str = "") -> str:
    """Write the call of a function.

    Parameters
    ----------
    function, subject : str
        Its name, and what stands first in the brackets; may be empty.
    arguments : mapping of str to str
        Each as Python.
    result : str, optional
        The variable that takes the result.

    Returns
    -------
    str
        One line, or one line per argument where that would be too long.

    Examples
    --------
    >>> write_call("list_nodes", "shop", {}, result="nodes")
    'nodes = list_nodes(shop)'
    >>> print(write_call("search", "", {"limit": "5"}))
    search(limit=5)
    """
    parts = [subject] if subject else []
    parts += [f"{name}={value}" for name, value in arguments.items()]
    opening = f"{result} = {function}(" if result else f"{function}("
    line = f"{opening}{', '.join(parts)})"
    if len(line) <= _WIDEST:
        return line
    return "\n".join([opening, *(f"    {part}," for part in parts), ")"])


def write_imports(code: str) -> str:
    """Write the imports of what some code names.

    Parameters
    ----------
    code : str
        Calls of public functions, and of what makes predicates and models.

    Returns
    -------
    str
        As few lines as there are modules to import from.

    Examples
    --------
    >>> write_imports('nodes = list_nodes(shop)')
    'from attrib_ds import list_nodes'
    """
    called = set(
        re.findall(r"(?<![.\w])(\w+)\(", re.sub(r'"(?:[^"\\\\]|\\\\.)*"|\'(?:[^\'\\\\]|\\\\.)*\'', "", code))
    )
    places = {"attrib_ds": set(dir(attrib_ds)), "attrib_ds.filters": {"Comparison", "Condition"}}
    lines = [_import(place, sorted(called & known)) for place, known in places.items() if called & known]
    return "\n".join(["import pandas as pd\n"] * ("pd." in code) + lines)


def _import(place: str, names: list[str]) -> str:
    line = f"from {place} import {', '.join(names)}"
    if len(line) <= _WIDEST:
        return line
    return "\n".join([f"from {place} import (", *(f"    {name}," for name in names), ")"])
