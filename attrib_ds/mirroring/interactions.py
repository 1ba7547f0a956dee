"""Copies interactions and their hits."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import schema
from attrib_ds.display import progress
from attrib_ds.filters import interaction
from attrib_ds.mirroring.runs import date, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from attrib_ds.filters import Predicate
    from attrib_ds.mirroring.copying import Copying

#: Records of one transaction, and what a kill makes to be read again.
_INTERACTIONS: Final = 5_000
_SESSIONS: Final = 1_000
#: When the service got to know of an interaction, or changed it.
_NOTED: Final = ("ingestedAt", "createdAt", "updateDate", "vendorUpdateDate")
_EVERYTHING: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in schema.INTERACTION.names))


def copy_interactions(copying: Copying) -> None:
    """Copy interactions, and hits if the mirror holds them."""
    if copying.run["interactions"] == "done":
        return
    where = copying.changes(interaction, "startDate", _NOTED)
    since = date(copying.run["interactions"]) or copying.scope
    is_first = copying.changed is None and copying.run["interactions"] is None
    with _search(copying, where, since) as (chunks, total), progress("interactions", total) as advance:
        for chunk in chunks:
            _load_interactions(copying, chunk, is_first=is_first)
            copying.keep(interactions=text(pc.max(chunk["startDate"]).as_py()))
            advance(chunk.num_rows)
    copying.keep(interactions="done")


def copy_interactions_of(copying: Copying, user_ids: Sequence[str]) -> None:
    """Copy the interactions of users, whether they have changed or not."""
    with _search(copying, interaction("userId").isin(user_ids), copying.scope) as (chunks, _):
        for chunk in chunks:
            _load_interactions(copying, chunk)


@contextmanager
def _search(
    copying: Copying, where: Predicate | None, since: datetime | None
) -> Iterator[tuple[Iterator[pa.Table], int]]:
    """Search by startDate; give chunks, each of which goes on where one ended, and how many there are."""
    answer = copying.source.stream(
        "search_interactions",
        where=where,
        since=since,
        until=copying.until,
        columns=_EVERYTHING if copying.state["personal"] else None,
        sort={"startDate": 1, "_id": 1},
        limit=None,
        filtered=None,
        bots=None,
    )
    with closing(answer):
        yield _chunks(answer), answer.total or 0


def _chunks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Divide rows anew, so that each transaction has as many."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        rest = table
        while count + rest.num_rows >= _INTERACTIONS:
            yield pa.concat_tables([*held, rest.slice(0, _INTERACTIONS - count)])
            rest = rest.slice(_INTERACTIONS - count)
            held, count = [], 0
        if rest.num_rows:
            held.append(rest)
            count += rest.num_rows
    if held:
        yield pa.concat_tables(held)


def _load_interactions(copying: Copying, page: pa.Table, *, is_first: bool = False) -> None:
    """Load a page of interactions, as far as the mirror holds them."""
    if not copying.state["personal"]:
        page = page.drop_columns([name for name in page.column_names if name in schema.ON_REQUEST])
    copying.load("interactions", page)
    if copying.state["hits"]:
        _copy_hits(copying, page, is_first=is_first)


def _copy_hits(copying: Copying, page: pa.Table, *, is_first: bool) -> None:
    """Copy the hits of sessions of which the mirror has not as many as they count."""
    sessions = [
        (opening, count)
        for opening, count in zip(page["firstHitId"].to_pylist(), page["hitCount"].to_pylist(), strict=True)
        if opening is not None and count != 0
    ]

    def lacks(session: tuple[str, int | None]) -> bool:
        opening, count = session
        return copying.mirror.send("list_hits", first_hit_id=opening).count != count

    wanted = [opening for opening, count in sessions if is_first or lacks((opening, count))]
    for start in range(0, len(wanted), _SESSIONS):
        part = wanted[start : start + _SESSIONS]
        found = copying.pool.map(lambda id: copying.source.send("list_hits", first_hit_id=id).read(), part)
        copying.load("hits", pa.concat_tables(list(found)))
