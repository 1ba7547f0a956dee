"""What a function asks for, read from its signature, its docstring and the contract."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from attrib_ds.contract import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

Kind = Literal[
    "flag", "three_state", "choice", "choices", "text", "texts", "instant", "whole", "number", "predicate",
    "sort", "frame",
]  # fmt: skip

#: Annotations of arguments, as they are written, with the kind of answer they ask for. The first that an
#: annotation begins with counts.
_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    ("bool | None", "three_state"),
    ("bool", "flag"),
    ("Predicate", "predicate"),
    ("datetime", "instant"),
    ("int", "whole"),
    ("float", "number"),
    ("Sequence[str]", "texts"),
    ("Mapping[str, int]", "sort"),
    ("pd.DataFrame", "frame"),
    ("str", "text"),
)


@dataclass(frozen=True)
class Question:
    """One thing that a function asks for.

    Parameters
    ----------
    name : str
        The argument.
    kind : str
        What kind of answer is asked for.
    default : object
        What counts without an answer.
    is_required : bool
        Whether there must be an answer.
    help : str
        The argument's description, in plain text.
    allowed : tuple of str
        Everything that may be answered, where that is a closed list.
    """

    name: str
    kind: Kind
    default: Any = None
    is_required: bool = False
    help: str = ""
    allowed: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The argument in words."""
        words = self.name.replace("_", " ")
        return words[:1].upper() + words[1:]


def questions_of(function: Callable[..., Any], *, also: Collection[str] = ()) -> dict[str, Question]:
    """List what a public function asks for beside the project.

    Parameters
    ----------
    function : callable
        With a numpydoc docstring. Where it carries out an operation of the contract, the contract says
        which answers are allowed.
    also : collection of str
        Arguments to list, as text, though no kind of answer is known for them.

    Returns
    -------
    dict of str to Question
        By argument, in the order of the signature. Arguments of a kind that no form asks for are left out.

    Examples
    --------
    >>> from attrib_ds import interaction_insights
    >>> asked = questions_of(interaction_insights)
    >>> asked["interval"].kind, asked["interval"].allowed[:3], asked["until"].kind
    ('choice', ('custom', 'day', 'dayOfMonth'), 'instant')
    """
    described = _descriptions(inspect.getdoc(function) or "")
    allowed = _allowed(function.__name__)
    found = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = next((kind for start, kind in _KINDS if str(parameter.annotation).startswith(start)), None)
        if kind is None and parameter.name not in also:
            continue
        kind = kind or "text"
        choices = allowed.get(parameter.name, ())
        if choices:
            kind = {"text": "choice", "texts": "choices"}.get(kind, kind)  # type: ignore[assignment]
        is_required = parameter.default is inspect.Parameter.empty
        found[parameter.name] = Question(
            parameter.name,
            kind,
            None if is_required else parameter.default,
            is_required,
            described.get(parameter.name, ""),
            choices,
        )
    return found


def _allowed(name: str) -> dict[str, tuple[str, ...]]:
    """Return the closed lists of answers that the contract knows, by argument."""
    operation = OPERATIONS.get(name)
    if operation is None:
        return {}
    members: Mapping[str, Any] = operation.request.model_json_schema()["properties"]
    found = {}
    for attribute, argument in operation.arguments.items():
        outer, *inner = attribute.split("/")
        schema = members.get(outer, {})
        for part in inner:
            schema = schema.get("properties", {}).get(part, {})
        listed = next((each for each in map(_enumerated, _branches(schema)) if each), ())
        if listed:
            found[argument] = listed
    return found


def _branches(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ()))


def _enumerated(schema: Mapping[str, Any]) -> tuple[str, ...]:
    for place in (schema, schema.get("items", {}), schema.get("propertyNames", {})):
        if all(isinstance(each, str) for each in place.get("enum", [None])):
            return tuple(place["enum"])
    return ()


def _descriptions(docstring: str) -> dict[str, str]:
    """Return the description of each parameter of a numpydoc docstring, without its markup."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+$|\Z)", docstring, re.DOTALL | re.MULTILINE)
    if section is None:
        return {}
    described = {}
    for names, text in re.findall(r"^(\S[^:\n]*)(?: :.*)?\n((?:(?:[ \t].*)?\n?)*)", section[1], re.MULTILINE):
        plain = re.sub(r":\w+:`~?([^`]+)`|``([^`]+)``", lambda found: found[1] or found[2], text)
        for name in names.split(","):
            described[name.strip()] = " ".join(plain.split())
    return described
