"""Finds the most probable location of users (G-066)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import ibis

from attrib_ds.service.users.field_values import field_values, json_extract_path, json_extract_path_text
from attrib_ds.service.users.interaction_counts import counted
from attrib_ds.service.users.vocabulary import Vocabulary

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

_GROUP: Final = "mostProbableLocation."


def most_probable(backend: Backend, ids: ir.Table, names: list[str], mode: str) -> ir.Table | None:  # noqa: ARG001  (one of the parts)
    """Return where users most probably are: by what their events say, otherwise by their latest session."""
    wanted = [name for name in names if name.startswith(_GROUP)]
    if not wanted:
        return None
    found = _of_sessions(backend, ids)
    vocabulary = Vocabulary(backend.con)
    keys = [key for key, field in vocabulary.fields.items() if field.placing]
    if keys:
        found = found.union(_of_events(backend, ids, vocabulary, keys))
    best = ibis.window(
        group_by=found.owner, order_by=[found.rank.asc(), found.date.desc(), found.id.desc(), found.key.asc()]
    )
    found = found.mutate(place=ibis.row_number().over(best))
    columns = {
        "source": found.source,
        "confidence": found.confidence,
        "location.type": ibis.literal("Point"),
        "location.coordinates": found.coordinates,
    }
    return found.filter(found.place == 0).select(
        "owner", **{name: columns[name.removeprefix(_GROUP)] for name in wanted}
    )


def _of_events(backend: Backend, ids: ir.Table, vocabulary: Vocabulary, keys: list[str]) -> ir.Table:
    values = field_values(backend, ids, vocabulary, keys=keys)
    text = values.current.cast("string")
    coordinates = json_extract_path(text, "$.location.coordinates").try_cast("array<float64>")
    confidence = json_extract_path_text(text, "$.extra.confidence").try_cast("float64").fill_null(0.0)
    found = values.filter(values.placing, ~values.invalid, ~values.anonymized).select(
        owner="userId",
        rank=ibis.literal(1, "int8"),
        date="date",
        id="sourceId",
        key="key",
        source=ibis.literal("event-based"),
        confidence=confidence,
        coordinates=coordinates,
    )
    return found.filter(found.coordinates.length() == 2)


def _of_sessions(backend: Backend, ids: ir.Table) -> ir.Table:
    kept = counted(backend)
    kept = kept.filter(kept["geo.latitude"].notnull(), kept["geo.longitude"].notnull())
    return kept.semi_join(ids, kept.userId == ids["_id"]).select(
        owner="userId",
        rank=ibis.literal(2, "int8"),
        date=kept.startDate.cast("timestamp(6)"),
        id="_id",
        key=ibis.literal(""),
        source=ibis.literal("interaction-based"),
        # Nothing tells how sure the place of an address on the network is.
        confidence=ibis.literal(0.0),
        coordinates=ibis.array([kept["geo.longitude"], kept["geo.latitude"]]),
    )
