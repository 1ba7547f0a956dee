"""Generate the Python code of a form: imports, opening the project, calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrib_ds
from attrib_ds import models

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attrib_ds.project import Project

_MAX_WIDTH: Final = 88
_MODELS: Final = frozenset(dir(models))
#: A string literal, which stays as it is, or a name that is called or has an attribute.
_NAMES: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|(?<![.\w])(?P<name>\w+)(?=[(.])')


def write_call(function: str, subject: str, arguments: Mapping[str, str], *, result: str = "") -> str:
    """Write the call of a function.

    Parameters
    ----------
    function : str
        Name of the function.
    subject : str
        First positional argument as Python; none if empty.
    arguments : mapping of str to str
        Python expressions of the keyword arguments. Models get the prefix ``models.``.
    result : str, optional
        Variable that the result is assigned to.

    Returns
    -------
    str
        One line, or one line per argument if that would be too long.

    Examples
    --------
    >>> write_call("list_nodes", "shop", {}, result="nodes")
    'nodes = list_nodes(shop)'
    >>> print(write_call("attribute", "paths", {"models": "[Markov(order=2)]"}))
    attribute(paths, models=[models.Markov(order=2)])
    """
    parts = [subject] if subject else []
    parts += [f"{name}={_NAMES.sub(_qualified, value)}" for name, value in arguments.items()]
    opening = f"{result} = {function}(" if result else f"{function}("
    line = f"{opening}{', '.join(parts)})"
    if len(line) <= _MAX_WIDTH:
        return line
    return "\n".join([opening, *(f"    {part}," for part in parts), ")"])


def write_imports(code: str) -> str:
    """Write the imports that a piece of code needs.

    Parameters
    ----------
    code : str
        Calls of public functions with predicates, models and frames as arguments.

    Returns
    -------
    str
        One import per module.

    Examples
    --------
    >>> write_imports('nodes = list_nodes(shop)')
    'from attrib_ds import list_nodes'
    """
    used = {match["name"] for match in _NAMES.finditer(code)}
    modules = {"attrib_ds": set(dir(attrib_ds)), "attrib_ds.filters": {"Comparison", "Condition"}}
    lines = [_import(module, sorted(used & names)) for module, names in modules.items() if used & names]
    return "\n".join(["import pandas as pd\n"] * ("pd" in used) + lines)


def write_connect(project: Project) -> str:
    """Write the line that opens a project again; a comment if the project is in memory.

    Examples
    --------
    >>> from attrib_ds import sample_project
    >>> write_connect(sample_project())
    "# project: the open project 'sample-shop'"
    """
    address = project.transport.address
    if address == ":memory:":
        return f"# project: the open project {project.project_id!r}"
    argument = "url" if "://" in address else "path"
    return f"project = connect({project.project_id!r}, {argument}={address!r})"


def _qualified(match: re.Match[str]) -> str:
    return f"models.{match[0]}" if match["name"] in _MODELS else match[0]


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _MAX_WIDTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])
