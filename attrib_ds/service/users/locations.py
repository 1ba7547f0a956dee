"""The most probable location of users (G-066), in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.records.sources import quoted
from attrib_ds.service.users.field_values import field_values
from attrib_ds.service.users.interaction_totals import IS_COUNTABLE

if TYPE_CHECKING:
    from attrib_ds.service.users.project_keys import ProjectKeys

_COLUMNS: Final = {
    "mostProbableLocation.source": "source",
    "mostProbableLocation.confidence": "confidence",
    "mostProbableLocation.location.type": "'Point'",
    "mostProbableLocation.location.coordinates": "coordinates",
}
# The location of an IP address comes without a confidence.
_FROM_SESSIONS: Final = (
    "SELECT userId AS owner, 2 AS rank, startDate AS date, _id AS id, '' AS key, "
    "'interaction-based' AS source, 0.0::DOUBLE AS confidence, "
    '["geo.longitude", "geo.latitude"]::DOUBLE[] AS coordinates FROM interactions '
    f'WHERE {IS_COUNTABLE} AND "geo.latitude" IS NOT NULL AND "geo.longitude" IS NOT NULL '
    "AND userId IN (SELECT _id FROM ids)"
)


def most_probable(project_keys: ProjectKeys, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (signature of all parts)
    """Select the location from the latest event that has one, otherwise from the latest session."""
    selected = [f"{column} AS {quoted(name)}" for name, column in _COLUMNS.items() if name in names]
    if not selected:
        return None
    candidates = _FROM_SESSIONS
    keys = [key for key, field in project_keys.fields.items() if field.placing]
    if keys:
        candidates = f"{candidates} UNION ALL {_from_events(project_keys, keys)}"
    return (
        f"SELECT owner, {', '.join(selected)} FROM ({candidates}) AS candidates "
        "QUALIFY row_number() OVER (PARTITION BY owner ORDER BY rank, date DESC, id DESC, key) = 1"
    )


def _from_events(project_keys: ProjectKeys, keys: list[str]) -> str:
    coordinates = "try_cast(json_extract(current, '$.location.coordinates') AS DOUBLE[])"
    confidence = "coalesce(try_cast(json_extract_string(current, '$.extra.confidence') AS DOUBLE), 0.0)"
    return (
        f"SELECT userId AS owner, 1 AS rank, date, sourceId AS id, key, 'event-based' AS source, "
        f"{confidence} AS confidence, {coordinates} AS coordinates "
        f"FROM ({field_values(project_keys, 'ids', keys=keys)}) AS field_values "
        'WHERE "placing" AND NOT invalid AND NOT anonymized AND len(coordinates) = 2'
    )
