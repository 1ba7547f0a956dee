"""Finds the most probable location of users (G-066), in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrib_ds.records.sources import quoted
from attrib_ds.service.users.field_values import field_values
from attrib_ds.service.users.interaction_counts import COUNTED

if TYPE_CHECKING:
    from attrib_ds.service.users.vocabulary import Vocabulary

_COLUMNS: Final = {
    "mostProbableLocation.source": "source",
    "mostProbableLocation.confidence": "confidence",
    "mostProbableLocation.location.type": "'Point'",
    "mostProbableLocation.location.coordinates": "coordinates",
}
# Nothing tells how sure the place of an address on the network is.
_OF_SESSIONS: Final = (
    "SELECT userId AS owner, 2 AS rank, startDate AS date, _id AS id, '' AS key, "
    "'interaction-based' AS source, 0.0::DOUBLE AS confidence, "
    '["geo.longitude", "geo.latitude"]::DOUBLE[] AS coordinates FROM interactions '
    f'WHERE {COUNTED} AND "geo.latitude" IS NOT NULL AND "geo.longitude" IS NOT NULL '
    "AND userId IN (SELECT _id FROM ids)"
)


def most_probable(vocabulary: Vocabulary, names: list[str], mode: str) -> str | None:  # noqa: ARG001  (one of the parts)
    """Return where users most probably are: by what their events say, otherwise by their latest session."""
    wanted = [f"{column} AS {quoted(name)}" for name, column in _COLUMNS.items() if name in names]
    if not wanted:
        return None
    found = _OF_SESSIONS
    keys = [key for key, field in vocabulary.fields.items() if field.placing]
    if keys:
        found = f"{found} UNION ALL {_of_events(vocabulary, keys)}"
    return (
        f"SELECT owner, {', '.join(wanted)} FROM ({found}) AS found "
        "QUALIFY row_number() OVER (PARTITION BY owner ORDER BY rank, date DESC, id DESC, key) = 1"
    )


def _of_events(vocabulary: Vocabulary, keys: list[str]) -> str:
    coordinates = "try_cast(json_extract(current, '$.location.coordinates') AS DOUBLE[])"
    confidence = "coalesce(try_cast(json_extract_string(current, '$.extra.confidence') AS DOUBLE), 0.0)"
    return (
        f"SELECT userId AS owner, 1 AS rank, date, sourceId AS id, key, 'event-based' AS source, "
        f"{confidence} AS confidence, {coordinates} AS coordinates "
        f"FROM ({field_values(vocabulary, 'ids', keys=keys)}) AS told "
        'WHERE "placing" AND NOT invalid AND NOT anonymized AND len(coordinates) = 2'
    )
