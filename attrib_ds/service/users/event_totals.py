"""Totals of the events of users, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.users.field_values import instant_text, object_of

if TYPE_CHECKING:
    from attrib_ds.service.users.project_keys import ProjectKeys

_OF_TYPE: Final = "eventTypesCount."
_COLUMNS: Final = {
    "eventCount": "count(*)",
    "firstEventDate": "min(eventDate)",
    "lastEventDate": "max(eventDate)",
}
_META: Final = (
    f"{{'count': number, 'firstDate': {instant_text('earliest')}, 'lastDate': {instant_text('latest')}}}"
)


def totals(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (signature of all parts)
    """Select the number of events, in total and by type, and the dates of the first and the last."""
    selected = {name: column for name, column in _COLUMNS.items() if name in names}
    for name in names:
        if name.startswith(_OF_TYPE):
            kind = literal(name.removeprefix(_OF_TYPE))
            selected[name] = f"count(*) FILTER (WHERE eventType = {kind})"
    if not selected:
        return None
    columns = ", ".join(f"{column} AS {quoted(name)}" for name, column in selected.items())
    return (
        f"SELECT userId AS owner, {columns} FROM events WHERE userId IN (SELECT _id FROM ids) GROUP BY userId"
    )


def by_type(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Select objects with totals by event type."""
    values = {"eventTypesCount": "number", "eventTypeMeta": _META}
    selected = [
        f"{object_of('eventType', value)} AS {quoted(name)}"
        for name, value in values.items()
        if name in names
    ]
    if not selected:
        return None
    by_type = (
        "SELECT userId, eventType, count(*) AS number, min(eventDate) AS earliest, max(eventDate) AS latest "
        "FROM events WHERE userId IN (SELECT _id FROM ids) GROUP BY userId, eventType"
    )
    return f"SELECT userId AS owner, {', '.join(selected)} FROM ({by_type}) AS by_type GROUP BY userId"
