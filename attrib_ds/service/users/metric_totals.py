"""Sums up the states and statistics of users' events, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.records.sources import literal, quoted
from attrib_ds.service.campaigns.rates import rated
from attrib_ds.service.users.field_values import object_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from attrib_ds.service.users.vocabulary import Vocabulary

_TOLD: Final = ("type", "sum", "max", "min", "count", "average")


def totals(vocabulary: Vocabulary, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (one of the parts)
    """Return single aggregations of metrics, one column for each."""
    asked = {
        name: name.removeprefix("metrics.").rpartition(".") for name in names if name.startswith("metrics.")
    }
    if not asked:
        return None
    columns = ", ".join(
        f"max({quoted(part)}) FILTER (WHERE key = {literal(metric)}) AS {quoted(name)}"
        for name, (metric, _, part) in asked.items()
    )
    of_keys = _by_key({metric for metric, _, _ in asked.values()})
    return f"SELECT userId AS owner, {columns} FROM ({of_keys}) AS by_key GROUP BY userId"


def whole(vocabulary: Vocabulary, names: list[str], mode: str) -> str | None:  # noqa: ARG001
    """Return the aggregations of every metric as one object (R080).

    Amounts that no rate converts are told beside, where there are any (G-065).
    """
    if "metrics" not in names:
        return None
    told = ", ".join(f"{literal(name)}: {quoted(name)}" for name in _TOLD)
    entry = (
        f"CASE WHEN unconverted > 0 THEN to_json({{{told}, 'count_unconverted': unconverted}}) "
        f"ELSE to_json({{{told}}}) END"
    )
    return (
        f"SELECT userId AS owner, {object_of('key', entry)} AS metrics "
        f"FROM ({_by_key(None)}) AS by_key GROUP BY userId"
    )


def _by_key(keys: Collection[str] | None) -> str:
    """Return what the metrics of each user and key add up to: states as 0 and 1, no deleted ones."""
    named = "" if keys is None else f"AND key IN ({', '.join(map(literal, sorted(keys)))})"
    kept = (
        "SELECT userId, key, type, dataType, date, number, amount, currency FROM metrics "
        "JOIN (SELECT _id AS event, userId FROM events WHERE userId IN (SELECT _id FROM ids)) AS mine "
        f"ON eventId = event WHERE deletedAt IS NULL {named}"
    )
    by_key = (
        "SELECT userId, key, max(type) AS type, "
        # Amounts are added exactly.
        "coalesce(sum(converted)::DOUBLE, 0.0::DOUBLE) "
        "+ coalesce(sum(number) FILTER (WHERE dataType <> 'currency'), 0.0::DOUBLE) AS added, "
        "max(worth) AS max, min(worth) AS min, count(worth) AS count, "
        "count(*) FILTER (WHERE amount IS NOT NULL AND converted IS NULL) AS unconverted "
        "FROM (SELECT *, CASE WHEN dataType = 'currency' THEN converted::DOUBLE ELSE number END AS worth "
        f"FROM ({rated(kept, '(SELECT currency FROM meta)')}) AS rated) AS valued GROUP BY userId, key"
    )
    return (
        "SELECT userId, key, type, max, min, count, unconverted, "
        # Of nothing there is no sum.
        "CASE WHEN count > 0 THEN added END AS sum, "
        # Rounding must not carry the average beyond what it is the average of (R081).
        "CASE WHEN count > 0 THEN greatest(least(added / nullif(count, 0), max), min) END AS average "
        f"FROM ({by_key}) AS added_up"
    )
