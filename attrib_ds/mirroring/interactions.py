"""Copies interactions and their hits."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import schema
from attrib_ds.display import progress
from attrib_ds.filters import interaction
from attrib_ds.mirroring.runs import format_instant, parse_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from attrib_ds.filters import Predicate
    from attrib_ds.mirroring.copier import Copier

#: Records per transaction; a killed process reads at most as many again.
_INTERACTIONS: Final = 5_000
_SESSIONS: Final = 1_000
#: Dates on which the service recorded or changed an interaction.
_CHANGE_DATES: Final = ("ingestedAt", "createdAt", "updateDate", "vendorUpdateDate")
_ALL_COLUMNS: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in schema.INTERACTION.names))


def copy_interactions(copier: Copier) -> None:
    """Copy interactions, and hits if the mirror has hits."""
    if copier.run["interactions"] == "done":
        return
    where = copier.changes(interaction, "startDate", _CHANGE_DATES)
    since = parse_instant(copier.run["interactions"]) or copier.scope
    is_first = copier.changed is None and copier.run["interactions"] is None
    with _search(copier, where, since) as (chunks, total), progress("interactions", total) as advance:
        for chunk in chunks:
            _load_interactions(copier, chunk, is_first=is_first)
            copier.save_progress(interactions=format_instant(pc.max(chunk["startDate"]).as_py()))
            advance(chunk.num_rows)
    copier.save_progress(interactions="done")


def copy_interactions_of(copier: Copier, user_ids: Sequence[str]) -> None:
    """Copy all interactions of users, changed or not."""
    with _search(copier, interaction("userId").isin(user_ids), copier.scope) as (chunks, _):
        for chunk in chunks:
            _load_interactions(copier, chunk)


@contextmanager
def _search(
    copier: Copier, where: Predicate | None, since: datetime | None
) -> Iterator[tuple[Iterator[pa.Table], int]]:
    """Search interactions sorted by startDate; yields chunks and the total number of records."""
    answer = copier.source.stream(
        "search_interactions",
        where=where,
        since=since,
        until=copier.until,
        columns=_ALL_COLUMNS if copier.state["personal"] else None,
        sort=["startDate", "_id"],
        limit=None,
        filtered=None,
        bots=None,
    )
    with closing(answer):
        yield _chunks(answer), answer.total or 0


def _chunks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rechunk tables to the size of a transaction."""
    buffer: list[pa.Table] = []
    count = 0
    for table in tables:
        rest = table
        while count + rest.num_rows >= _INTERACTIONS:
            yield pa.concat_tables([*buffer, rest.slice(0, _INTERACTIONS - count)])
            rest = rest.slice(_INTERACTIONS - count)
            buffer, count = [], 0
        if rest.num_rows:
            buffer.append(rest)
            count += rest.num_rows
    if buffer:
        yield pa.concat_tables(buffer)


def _load_interactions(copier: Copier, page: pa.Table, *, is_first: bool = False) -> None:
    """Load a page of interactions, without personal columns unless the mirror has them."""
    if not copier.state["personal"]:
        page = page.drop_columns([name for name in page.column_names if name in schema.ON_REQUEST])
    copier.load("interactions", page)
    if copier.state["hits"]:
        _copy_hits(copier, page, is_first=is_first)


def _copy_hits(copier: Copier, page: pa.Table, *, is_first: bool) -> None:
    """Copy the hits of sessions for which the mirror does not have all hits."""
    sessions = [
        (opening, count)
        for opening, count in zip(page["firstHitId"].to_pylist(), page["hitCount"].to_pylist(), strict=True)
        if opening is not None and count != 0
    ]

    def lacks(session: tuple[str, int | None]) -> bool:
        opening, count = session
        return copier.mirror.send("list_hits", first_hit_id=opening).count != count

    missing = [opening for opening, count in sessions if is_first or lacks((opening, count))]
    for start in range(0, len(missing), _SESSIONS):
        batch = missing[start : start + _SESSIONS]
        tables = copier.pool.map(lambda id: copier.source.send("list_hits", first_hit_id=id).read(), batch)
        copier.load("hits", pa.concat_tables(list(tables)))
