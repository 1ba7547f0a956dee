"""The fields of a form: from a function's signature, its docstring and the contract, in plain words."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
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


#: Labels of arguments whose name says too little.
LABELS: Final[dict[str, str]] = {
    "where": "Only visits",
    "nodes": "Only sources",
    "since": "From",
    "until": "To",
    "lookback": "Lookback window",
    "confidence": "Confidence level",
    "in_currency": "Currency",
    "project_id": "Project",
    "path": "File",
    "url": "Address of the service",
    "key": "Key file",
    "group_by": "Group by",
    "vendor_id": "Integration",
    "campaign_slug": "Short name",
    "bots": "Bots",
    "filtered": "Filtered traffic",
    "frame": "Costs",
    "name_like": "Name contains",
    "updates": "States",
}
#: One line each.
HELP: Final[dict[str, str]] = {
    "event_type": "What counts as a conversion.",
    "statistic": "What is credited: the number of conversions, or an amount such as turnover.",
    "lookback": "How long before a conversion a visit can earn credit: 30D is thirty days.",
    "level": "What receives the credit: channels, campaigns, ads.",
    "since": "First day; everything by default.",
    "until": "Last day, included.",
    "where": "Conditions on visits; every visit by default.",
    "nodes": "Conditions on traffic sources; every source by default.",
    "models": "How credit is divided among the visits before a conversion. Several are compared.",
    "confidence": "For intervals: 0.95 means 95 %. Empty for none.",
    "limit": "Maximum number of rows; all by default.",
    "offset": "Number of rows to skip.",
    "columns": "Columns to show; all by default.",
    "group_by": "One line for each value of a property, such as the country.",
    "interval": "One row for each day, week, month …",
    "timezone": "Time zone of days, such as Europe/Paris; the project's by default.",
    "bots": "Visits of search engines and other programs.",
    "filtered": "Visits that a traffic filter caught.",
    "in_currency": "Three letters, such as EUR, to convert all amounts; no conversion by default.",
    "project_id": "3 to 64 small letters, digits and hyphens.",
    "path": "Where the project is kept on this machine; the usual folder by default.",
    "url": "Starts with https://. Leave it empty for a project on this machine.",
    "key": "Path of the key file that the service gave you. Its content is never shown.",
    "vendor_id": "Where the campaigns run.",
    "campaign_slug": "As it appears in the addresses of landing pages; cannot be changed later.",
    "dry_run": "Only check the rows; send nothing.",
    "read_only": "Look without changing anything.",
    "frame": "Columns: campaignId, amount, startDate, endDate and, if known, country and region.",
    "name_like": "Part of the name; all campaigns by default.",
    "updates": "Columns: id of the event, storageKey (the state), value (1 or 0) and, if known, date.",
}
