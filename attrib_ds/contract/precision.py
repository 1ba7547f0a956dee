"""Truncates the instants of a request to the precision that the service keeps (G-224)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import singledispatch
from typing import Any, TypeVar

from attrib_ds import instants
from attrib_ds.contract.request import Part
from attrib_ds.filters import Comparison, Condition
from attrib_ds.filters.vocabulary import FieldType

PartT = TypeVar("PartT", bound=Part)


def in_milliseconds(request: PartT) -> PartT:
    """Return a request whose bounds, dates and filters have no digits beyond milliseconds.

    A stored instant is then found by the instant that was sent.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS, build
    >>> since = "2025-01-31T12:00:00.0019Z"
    >>> search = build(OPERATIONS["search_interactions"], project_id="shop", since=since)
    >>> in_milliseconds(search).since
    datetime.datetime(2025, 1, 31, 12, 0, 0, 1000, tzinfo=datetime.timezone.utc)
    """
    given = {name: getattr(request, name) for name in request.model_fields_set}
    truncated = {name: truncate(value) for name, value in given.items()}
    changes = {name: value for name, value in truncated.items() if value is not given[name]}
    return request.model_copy(update=changes) if changes else request


@singledispatch
def truncate(value: Any) -> Any:
    """Truncate an instant, and those in a filter or in an object; return any other value unchanged."""
    return value


@truncate.register
def _(value: datetime) -> datetime:
    return instants.truncate(value)


@truncate.register
def _(value: Part) -> Part:
    return in_milliseconds(value)


@truncate.register
def _(value: tuple) -> tuple[Any, ...]:  # type: ignore[type-arg]
    return tuple(map(truncate, value)) if value and isinstance(value[0], Part) else value


@truncate.register
def _(value: Comparison) -> Comparison:
    if value.operator_type != FieldType.INSTANT or value.value is None:
        return value
    texts = value.value if isinstance(value.value, tuple) else (value.value,)
    kept = tuple(instants.format(instants.parse(text, argument="value")) for text in texts)
    return replace(value, value=kept if isinstance(value.value, tuple) else kept[0])


@truncate.register
def _(value: Condition) -> Condition:
    return replace(value, rules=tuple(map(truncate, value.rules)))
