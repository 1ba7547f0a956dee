"""Generate the Python code of a form: imports, opening the project, calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrib_ds
from attrib_ds import models

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from attrib_ds.project import Project

_MAX_WIDTH: Final = 88
_MODELS: Final = frozenset(dir(models))
_PUBLIC: Final = frozenset(dir(attrib_ds))
#: Classes that predicates without a shorter notation are written with.
_FILTERS: Final = frozenset({"Comparison", "Condition"})
#: A string literal, which stays as it is, or a name that is called or has an attribute.
_NAMES: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|(?<![.\w])(?P<name>\w+)(?=[(.])')


def write_call(
    function: Callable[..., Any], subject: str, arguments: Mapping[str, str], *, result: str
) -> str:
    """Write the call of a public function, or of a method of a public class.

    Parameters
    ----------
    function : callable
        What is called; a method is called on the subject.
    subject : str
        First positional argument as Python; none if empty.
    arguments : mapping of str to str
        Python expressions of the keyword arguments. Public names get the prefix ``at.``.
    result : str
        Variable that the result is assigned to.

    Returns
    -------
    str
        One line, or one line per argument if that would be too long.

    Examples
    --------
    >>> import attrib_ds as at
    >>> write_call(at.list_nodes, "shop", {}, result="nodes")
    'nodes = at.list_nodes(shop)'
    >>> print(write_call(at.attribute, "paths", {"models": "[Markov(order=2)]"}, result="credits"))
    credits = at.attribute(paths, models=[at.models.Markov(order=2)])
    """
    is_method = "." in function.__qualname__
    parts = [subject] if subject and not is_method else []
    parts += [f"{name}={_NAMES.sub(_qualified, value)}" for name, value in arguments.items()]
    opening = f"{result} = {subject if is_method else 'at'}.{function.__name__}("
    line = f"{opening}{', '.join(parts)})"
    if len(line) <= _MAX_WIDTH:
        return line
    return "\n".join([opening, *(f"    {part}," for part in parts), ")"])


def write_assignment(name: str, value: Any) -> str:
    """Write the assignment of a value, such as a predicate, whose ``repr`` is Python.

    Examples
    --------
    >>> from attrib_ds import interaction
    >>> write_assignment("predicate", interaction("duration") > 10)
    'predicate = at.interaction("duration") > 10'
    """
    return f"{name} = {_NAMES.sub(_qualified, repr(value))}"


def write_program(lines: list[str]) -> str:
    """Write lines of code below the imports that they need.

    Examples
    --------
    >>> print(write_program(["nodes = at.list_nodes(shop)"]))
    import attrib_ds as at
    <BLANKLINE>
    nodes = at.list_nodes(shop)
    """
    code = "\n".join(lines)
    used = {match["name"] for match in _NAMES.finditer(code)}
    imports = [
        *(["import pandas as pd", ""] if "pd" in used else []),
        *(["import attrib_ds as at"] if "at" in used else []),
        *([f"from attrib_ds.filters import {', '.join(sorted(used & _FILTERS))}"] if used & _FILTERS else []),
    ]
    return "\n".join([*imports, "", code] if imports else [code])


def write_opening(project: Project) -> str:
    """Write the line that opens a project again.

    Examples
    --------
    >>> from attrib_ds import sample_project
    >>> write_opening(sample_project())
    'project = at.sample_project()'
    """
    address = project.transport.address
    if address == ":memory:" and project.project_id == "sample-shop":
        return "project = at.sample_project()"
    if address == ":memory:":
        note = "  # kept in memory: load its data here"
        return f'project = at.connect({project.project_id!r}, path=":memory:"){note}'
    argument = "url" if "://" in address else "path"
    return f"project = at.connect({project.project_id!r}, {argument}={address!r})"


def _qualified(match: re.Match[str]) -> str:
    name = match["name"]
    if name in _MODELS:
        return f"at.models.{name}"
    return f"at.{name}" if name in _PUBLIC else match[0]
