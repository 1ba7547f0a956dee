"""Read members, filter, sort and label: what operations have in common."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import eq, ge, gt, le, lt
from typing import Annotated, Any, NotRequired

import pydantic
from support.vendor.world import SERVICE
from typing_extensions import TypedDict

OPERATORS = {"equals": eq, "in": lambda one, v: one in v, "isNull": lambda one, _: one is None}
OPERATORS |= {"contains": lambda one, v: v.lower() in str(one).lower(), "lessThan": lt}
OPERATORS |= {"greaterThan": gt, "greaterThanOrEquals": ge, "lessThanOrEquals": le}
OPPOSITES = {f"not{name[0].upper()}{name[1:]}": name for name in OPERATORS} | {"isNotNull": "isNull"}


class RefusedError(Exception):
    """A request that the service refuses: a status and a message."""


def instant(value):
    """Read a date-time of RFC 3339; without an offset it is in UTC."""
    found = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", str(value).upper())
    moment = datetime.fromisoformat(found[0] if found else "none")
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)


#: Types of members by kind; any other kind is a pattern of text.
KINDS = {"any": Any, "object": dict, "list": list, "flag": bool, "count": pydantic.NonNegativeInt}
KINDS["text"] = Annotated[str, pydantic.Field(min_length=1)]
KINDS["names"] = Annotated[list, pydantic.Field(min_length=1)]
KINDS["number"] = pydantic.StrictInt | pydantic.StrictFloat
KINDS["date"] = Annotated[datetime, pydantic.BeforeValidator(instant)]
KINDS["amount"] = Annotated[dict, pydantic.BeforeValidator(lambda v: {"amount": v, "currency": "EUR"})]


@cache
def reader(operation):
    """Return what reads the members of the body or the query of an operation, and refuses others."""
    types = {}
    for name, text in SERVICE["operations"][operation].get("members", {}).items():
        kind = text.rstrip("?")
        type_ = KINDS.get(kind) or Annotated[str, pydantic.Field(pattern=f"^({kind})$")]
        types[name] = NotRequired[type_ | None] if text.endswith("?") else type_
    members = TypedDict("Members", types)
    members.__pydantic_config__ = {"extra": "forbid"}
    return pydantic.TypeAdapter(members)


def checked(operation, given):
    """Return the members of a body or a query."""
    try:
        return reader(operation).validate_python(given)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise RefusedError(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def lookup(record, path):
    """Return a property of a record, or None; a dot leads into a nested object."""
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record


def matches(node, values_of):
    """Tell whether a record matches a predicate or a condition; `values_of` finds the values of a predicate."""
    if rules := node.get("rules") or node.get("operands"):
        of = {"AND": all, "OR": any}[node.get("condition") or node["operator"]]
        return of(matches(rule, values_of) for rule in rules)
    name, value, found = OPPOSITES.get(node["operator"], node["operator"]), node.get("value"), False
    for one in values_of(node) or [None]:
        right = instant(value) if isinstance(one, datetime) and name != "isNull" else value
        found |= (one is not None or name in ("equals", "in", "isNull")) and OPERATORS[name](one, right)
    return found is (name == node["operator"])


def ordered(rows, value, way):
    """Sort rows by a value of each; missing values come first when ascending, and a field has the first one."""
    if str(way) not in ("1", "-1", "ASC", "DESC"):
        raise RefusedError(400, "a direction of sort is 1, -1, ASC or DESC")

    def rank(row):
        found = value(row)
        found = found[0]["current"] if isinstance(found, list) and found else found
        return found is not None, isinstance(found, str), found or 0

    return sorted(rows, key=rank, reverse=str(way) in ("-1", "DESC"))


def label(moment, given, labels):
    """Return the label of the interval that a date is in."""
    interval, since, until = given["interval"], given.get("since"), given.get("until")
    if interval == "custom":
        width, last = (until - since) / given["segmentCount"], given["segmentCount"] - 1
        return (since + width * min(int((moment - since) / width), last)).isoformat()

    def name(day):
        parts = {"q": (day.month + 2) // 3, "h": (day.month + 5) // 6}
        return day.strftime(SERVICE["intervals"][interval]).format(**parts)

    if "Of" in interval:
        return int(name(moment)) if labels in ("number", "native") else str(int(name(moment)))
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    while labels in ("start", "number") and name(start - timedelta(days=1)) == name(moment):
        start -= timedelta(days=1)
    forms = {"start": f"{start:%Y-%m-%dT00:00:00.000Z}", "number": int(start.timestamp())}
    return forms.get(labels, name(moment))
