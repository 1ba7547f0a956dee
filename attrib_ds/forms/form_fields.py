"""The fields of a form: from a function's signature, its docstring and the contract, in plain words."""

import inspect
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from attrib_ds.contract import OPERATIONS

Kind = Literal[
    "flag", "three_state", "choice", "choices", "text", "texts", "instant", "whole", "number", "predicate",
    "sort", "frame",
]  # fmt: skip

#: Kind of field by the start of an argument's annotation; the first match counts.
_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    ("bool | None", "three_state"),
    ("bool", "flag"),
    ("Predicate", "predicate"),
    ("datetime", "instant"),
    ("int", "whole"),
    ("float", "number"),
    ("Sequence[str]", "texts"),
    ("pd.DataFrame", "frame"),
    ("str", "text"),
)
#: Types of defaults that a control can show.
_PLAIN: Final = (str, int, float, tuple, list)


@dataclass(frozen=True)
class FormField:
    """A field of a form: one argument of a function.

    Parameters
    ----------
    name : str
        Name of the argument.
    kind : str
        Kind of value, which decides on the control.
    default : object
        Value if the field is left empty.
    is_required : bool
        Whether the field must be filled in.
    help : str
        Description of the argument, in plain text.
    allowed : tuple of str
        All allowed values, if they form a closed list.
    label : str
        Name for display; by default in plain words.
    summary : str
        One line of help; by default in plain words, or the first sentence of the description.
    """

    name: str
    kind: Kind
    default: Any = None
    is_required: bool = False
    help: str = ""
    allowed: tuple[str, ...] = ()
    label: str = ""
    summary: str = ""

    def __post_init__(self) -> None:
        words = self.name.replace("_", " ")
        label = self.label or LABELS.get(self.name) or words[:1].upper() + words[1:]
        first_sentence = re.split(r"(?<=\.)\s", self.help, maxsplit=1)[0]
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "summary", self.summary or HELP.get(self.name, first_sentence))


def form_fields(function: Callable[..., Any], *, also: Collection[str] = ()) -> dict[str, FormField]:
    """Return the form fields of a public function.

    Parameters
    ----------
    function : callable
        With a numpydoc docstring. If it calls an operation of the contract, the contract gives the allowed
        values.
    also : collection of str
        Arguments to include as text fields though their annotation matches no kind.

    Returns
    -------
    dict of str to FormField
        By argument, in the order of the signature, without the project. Other arguments whose annotation
        matches no kind are left out.

    Examples
    --------
    >>> from attrib_ds import interaction_insights
    >>> fields = form_fields(interaction_insights)
    >>> fields["interval"].kind, fields["interval"].allowed[:3], fields["until"].kind
    ('choice', ('custom', 'day', 'dayOfMonth'), 'instant')
    """
    descriptions = _descriptions(inspect.getdoc(function) or "")
    allowed = _allowed_values(function.__name__)
    fields = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = next((kind for start, kind in _KINDS if str(parameter.annotation).startswith(start)), None)
        if parameter.name == "sort":
            kind = "sort"
        if kind is None and parameter.name not in also:
            continue
        kind = kind or "text"
        choices = allowed.get(parameter.name, ())
        if choices:
            kind = {"text": "choice", "texts": "choices"}.get(kind, kind)  # type: ignore[assignment]
        is_required = parameter.default is inspect.Parameter.empty
        fields[parameter.name] = FormField(
            parameter.name,
            kind,
            parameter.default if isinstance(parameter.default, _PLAIN) else None,
            is_required,
            descriptions.get(parameter.name, ""),
            choices,
        )
    return fields


def _allowed_values(name: str) -> dict[str, tuple[str, ...]]:
    """Return the closed lists of allowed values in the contract, by argument."""
    operation = OPERATIONS.get(name)
    if operation is None:
        return {}
    members: Mapping[str, Any] = operation.request.model_json_schema()["properties"]
    allowed = {}
    for attribute, argument in operation.arguments.items():
        outer, *inner = attribute.split("/")
        schema = members.get(outer, {})
        for part in inner:
            schema = schema.get("properties", {}).get(part, {})
        values = next(filter(None, map(_enum_values, _branches(schema))), ())
        if values:
            allowed[argument] = values
    return allowed


def _branches(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ()))


def _enum_values(schema: Mapping[str, Any]) -> tuple[str, ...]:
    for part in (schema, schema.get("items", {}), schema.get("propertyNames", {})):
        if all(isinstance(value, str) for value in part.get("enum", [None])):
            return tuple(part["enum"])
    return ()


def _descriptions(docstring: str) -> dict[str, str]:
    """Return the description of each parameter of a numpydoc docstring, without its markup."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+$|\Z)", docstring, re.DOTALL | re.MULTILINE)
    if section is None:
        return {}
    descriptions = {}
    for names, text in re.findall(r"^(\S[^:\n]*)(?: :.*)?\n((?:(?:[ \t].*)?\n?)*)", section[1], re.MULTILINE):
        plain = re.sub(r":\w+:`~?([^`]+)`|``([^`]+)``", lambda match: match[1] or match[2], text)
        for name in names.split(","):
            descriptions[name.strip()] = " ".join(plain.split())
    return descriptions


#: Labels and help by argument, and titles by form.
TEXTS: Final = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
LABELS: Final[dict[str, str]] = TEXTS["labels"]
HELP: Final[dict[str, str]] = TEXTS["help"]


def words_of(form: str) -> dict[str, tuple[str, str]]:
    """Return the label and the help of each argument that a form says in words of its own."""
    return {name: (label, line) for name, (label, line) in TEXTS["words"][form].items()}
