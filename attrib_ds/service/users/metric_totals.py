"""Totals of the states and statistics of users' events, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.campaigns.rates import in_project_currency_query
from attrib_ds.service.users.field_values import object_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from attrib_ds.service.users.project_keys import ProjectKeys

_AGGREGATIONS: Final = ("type", "sum", "max", "min", "count", "average")


def totals(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (signature of all parts)
    """Select single aggregations of metrics, one column each."""
    requested = {
        name: name.removeprefix("metrics.").rpartition(".") for name in names if name.startswith("metrics.")
    }
    if not requested:
        return None
    columns = ", ".join(
        f"max({quoted(part)}) FILTER (WHERE key = {literal(metric)}) AS {quoted(name)}"
        for name, (metric, _, part) in requested.items()
    )
    of_keys = _by_key({metric for metric, _, _ in requested.values()})
    return f"SELECT userId AS owner, {columns} FROM ({of_keys}) AS by_key GROUP BY userId"


def all_metrics(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Select the aggregations of all metrics as one object (R080).

    It includes the number of amounts without a rate, if there are any (G-065).
    """
    if "metrics" not in names:
        return None
    members = ", ".join(f"{literal(name)}: {quoted(name)}" for name in _AGGREGATIONS)
    entry = (
        f"CASE WHEN unconverted > 0 THEN to_json({{{members}, 'count_unconverted': unconverted}}) "
        f"ELSE to_json({{{members}}}) END"
    )
    return (
        f"SELECT userId AS owner, {object_of('key', entry)} AS metrics "
        f"FROM ({_by_key(None)}) AS by_key GROUP BY userId"
    )


def _by_key(keys: Collection[str] | None) -> str:
    """Aggregate metrics by user and key, without deleted ones; states count as 0 and 1."""
    only_keys = "" if keys is None else f"AND key IN ({', '.join(map(literal, sorted(keys)))})"
    present = (
        "SELECT userId, key, type, dataType, date, number, amount, currency FROM metrics "
        "JOIN (SELECT _id AS event, userId FROM events WHERE userId IN (SELECT _id FROM ids)) AS own_events "
        f"ON eventId = event WHERE deletedAt IS NULL {only_keys}"
    )
    by_key = (
        "SELECT userId, key, max(type) AS type, "
        # Amounts are decimals, summed exactly.
        "coalesce(sum(converted)::DOUBLE, 0.0::DOUBLE) "
        "+ coalesce(sum(number) FILTER (WHERE dataType <> 'currency'), 0.0::DOUBLE) AS added, "
        "max(value) AS max, min(value) AS min, count(value) AS count, "
        "count(*) FILTER (WHERE amount IS NOT NULL AND converted IS NULL) AS unconverted "
        "FROM (SELECT *, CASE WHEN dataType = 'currency' THEN converted::DOUBLE ELSE number END AS value "
        f"FROM ({in_project_currency_query(present, '(SELECT currency FROM meta)')}) AS converted_metrics) "
        "AS metric_values GROUP BY userId, key"
    )
    return (
        "SELECT userId, key, type, max, min, count, unconverted, "
        # No sum without values.
        "CASE WHEN count > 0 THEN added END AS sum, "
        # Rounding must not move the average beyond the extremes (R081).
        "CASE WHEN count > 0 THEN greatest(least(added / nullif(count, 0), max), min) END AS average "
        f"FROM ({by_key}) AS added_up"
    )
