"""Choose the columns that identify users in a table of touchpoints and one of conversions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attrib_ds.importers.column_names import COMMON_NAMES, folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attrib_ds.importers.own_columns import Named, OwnColumns

_DEVICES = frozenset(map(folded, COMMON_NAMES["device"]))
#: A session is a user only if nothing else is known.
_SESSION = "sessionid"


@dataclass(frozen=True)
class UserColumns:
    """Columns of one table: of the user, of the device, or of both."""

    user: str | None
    device: str | None = None


def user_columns(
    touchpoints: OwnColumns, conversions: OwnColumns, named: Mapping[str, Named]
) -> tuple[UserColumns, UserColumns]:
    """Return the columns of users of both tables, preferring names that the tables share.

    The id of a device stands beside that of a user in at least one of the tables; otherwise it is the user.
    """
    tables = (touchpoints, conversions)
    if {"user", "conversion_user", "device"} & set(named):
        return _named(tables, named)
    users = [_filled(table, is_device=False) for table in tables]
    devices = [_filled(table, is_device=True) for table in tables]
    if not any(user and device for user, device in zip(users, devices, strict=True)):
        both = [_filled(table) for table in tables]
        chosen = [UserColumns(column) for column in _preferred(both)]
    else:
        shared = bool({*map(folded, devices[0])} & {*map(folded, devices[1])})
        chosen = [
            UserColumns(device) if user is None and not shared else UserColumns(user, device)
            for user, device in zip(_preferred(users), _preferred(devices), strict=True)
        ]
    first, second = (
        columns if columns.user or columns.device else UserColumns(table.find("user", named, called=called))
        for table, columns, called in zip(tables, chosen, ("user", "conversion_user"), strict=True)
    )
    return first, second


def _named(
    tables: tuple[OwnColumns, OwnColumns], named: Mapping[str, Named]
) -> tuple[UserColumns, UserColumns]:
    device = named.get("device")
    if device is not None and not any(device in table.source.columns for table in tables):
        tables[0].find("device", named)
    if "conversion_user" in named:
        of_conversions = {"user": named["conversion_user"]}
    else:
        of_conversions = {role: name for role, name in named.items() if role == "user"}
    chosen = []
    for table, names, called in zip(
        tables, (named, of_conversions), ("user", "conversion_user"), strict=True
    ):
        has_device = isinstance(device, str) and device in table.source.columns
        user = table.find("user", names, required=not has_device, called=called)
        chosen.append(UserColumns(None if user == device else user, str(device) if has_device else None))
    first, second = chosen
    return first, second


def _filled(table: OwnColumns, *, is_device: bool | None = None) -> list[str]:
    """Return the columns with values whose names are common for users, for devices, or for both."""
    columns = [
        column
        for column in table.common("user")
        if is_device is None or (folded(column) != _SESSION and (folded(column) in _DEVICES) == is_device)
    ]
    return [column for column in columns if table.is_filled(column)]


def _preferred(columns: list[list[str]]) -> list[str | None]:
    """Return a column for each table: the first name that both have, else the first of each."""
    first, second = ({folded(column): column for column in of_table} for of_table in columns)
    for name, column in first.items():
        if name in second:
            return [column, second[name]]
    return [next(iter(of_table), None) for of_table in columns]
