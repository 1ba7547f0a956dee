"""What a visit is: where sessions begin, as expressions for every engine, and their limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import ibis
import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

#: Time without a hit that ends a session, in milliseconds.
TIMEOUT: Final = 30 * 60 * 1_000
#: Longest time from the first hit of a session to its last one, in milliseconds, and most hits of a session.
LONGEST: Final = 24 * 60 * 60 * 1_000
MOST_HITS: Final = 10_000
#: Longest time from the first hit of a session to a hit that changes it.
SPAN: Final = LONGEST + TIMEOUT

#: Place of a hit among those at the same instant, by its type of referrer. Who comes from outside is first:
#: logs know no more than seconds. A campaign that opens no session is that of an internal link.
_ENTRIES: Final = {"direct": 1, "internal": 2, "campaign": 2}
_BRANCHES: Final = " ".join(f"WHEN referrerType = '{kind}' THEN {place}" for kind, place in _ENTRIES.items())
#: Order of the hits of a tracker, in SQL and by columns of split hits.
ORDER: Final = f"serverDate, CASE WHEN isCampaign THEN 0 {_BRANCHES} ELSE 0 END, id"
ORDERED: Final = ("serverDate", "entry", "id")
_EPOCH: Final = "1970-01-01 00:00:00"


def micros(date: Any) -> Any:
    """Return the microseconds since 1970 of an instant."""
    return date.delta(ibis.literal(_EPOCH).cast("timestamp(6)"), unit="microsecond")


def split_into_sessions(hits: ir.Table) -> ir.Table:
    """Return hits with the number of their session, apart from the limits of length.

    Parameters
    ----------
    hits : ibis.Table
        ``id``, ``trackerId``, ``serverDate``, ``nodeId``, ``referrerType`` and ``isCampaign``, whether it may
        open a session because its node is another one.

    Returns
    -------
    ibis.Table
        Also ``is_opening``, ``number`` (from 1, of the session among those of its tracker), ``instant`` in
        microseconds, ``entry``, and ``block``, that of the run of hits without the timeout between them.
    """
    of_tracker = ibis.window(group_by="trackerId", order_by=ORDERED)
    kinds = [(hits.referrerType == kind, place) for kind, place in _ENTRIES.items()]
    entry = ibis.cases((hits.isCampaign, 0), *kinds, else_=0)
    hits = hits.mutate(instant=micros(hits.serverDate), entry=entry)
    gap = hits.instant - hits.instant.lag().over(of_tracker)
    hits = hits.mutate(opens_block=(gap >= TIMEOUT * 1_000).fill_null(True))
    hits = hits.mutate(is_mark=hits.opens_block | hits.isCampaign)
    # Only hits that may open a session decide on its node.
    before = hits.nodeId.lag().over(ibis.window(group_by=["trackerId", "is_mark"], order_by=ORDERED))
    is_other = hits.isCampaign & (hits.nodeId != before).fill_null(False)
    hits = hits.mutate(is_opening=hits.opens_block | is_other)
    return numbered(hits, number="is_opening", block="opens_block").drop("opens_block", "is_mark")


def numbered(hits: ir.Table, **flags: str) -> ir.Table:
    """Return split hits with the number of the flags so far of their tracker, by name of the number."""
    so_far = ibis.window(group_by="trackerId", order_by=ORDERED, rows=(None, 0))
    return hits.mutate(**{name: hits[flag].cast("int64").sum().over(so_far) for name, flag in flags.items()})


def long_blocks(hits: ir.Table, *, longest: int, most_hits: int) -> ir.Table:
    """Return ``trackerId`` and ``block`` of split hits where a session exceeds a limit of length."""
    spans = hits.group_by("trackerId", "number").agg(
        block=hits.block.min(), span=hits.instant.max() - hits.instant.min(), rows=hits.count()
    )
    is_long = (spans.span >= longest * 1_000) | (spans.rows > most_hits)
    return spans.filter(is_long).select("trackerId", "block").distinct()


def openings(rows: Iterable[tuple[Any, ...]], *, longest: int, most_hits: int) -> Iterator[Any]:
    """Return the keys of the hits that open the sessions of long blocks.

    Where a session opens there depends on where the one before it did.

    Parameters
    ----------
    rows : iterable of tuple
        ``trackerId``, ``block``, ``instant``, ``isCampaign``, ``nodeId`` and the key of each hit, in the
        order of trackers and of their hits.
    longest, most_hits : int
        The limits: milliseconds, and hits.
    """
    for _, block in groupby(rows, itemgetter(0, 1)):
        yield from _openings_of_block(list(block), longest, most_hits)


def _openings_of_block(block: Sequence[tuple[Any, ...]], longest: int, most_hits: int) -> Iterator[Any]:
    _, _, times, flags, nodes, keys = zip(*block, strict=True)
    dates = np.array(times, np.int64)
    campaigns: NDArray[np.intp] = np.flatnonzero(np.array(flags, bool))
    # Of each campaign: the first one after it with another node.
    changes = [len(block)] * (len(campaigns) + 1)
    for index in range(len(campaigns) - 2, -1, -1):
        following = campaigns[index + 1]
        is_same = nodes[following] == nodes[campaigns[index]]
        changes[index] = changes[index + 1] if is_same else int(following)
    position = 0
    while position < len(block):
        yield keys[position]
        index = int(np.searchsorted(campaigns, position, side="right"))
        change = len(block)
        if index < len(campaigns):
            is_same = nodes[campaigns[index]] == nodes[position]
            change = changes[index] if is_same else int(campaigns[index])
        late = int(np.searchsorted(dates, dates[position] + longest * 1_000, side="left"))
        position = min(change, position + most_hits, late)


_TYPES: Final[Mapping[str, str]] = {"serverDate": "timestamp(6)", "isCampaign": "boolean"}


@cache
def split_sql(table: str, columns: tuple[str, ...]) -> str:
    """Return :func:`split_into_sessions` as a query for DuckDB, of a table with the columns given."""
    hits = ibis.table({name: _TYPES.get(name, "string") for name in columns}, name=table)
    return str(ibis.to_sql(split_into_sessions(hits), dialect="duckdb"))


@cache
def long_blocks_sql(table: str, longest: int, most_hits: int) -> str:
    """Return :func:`long_blocks` as a query for DuckDB, of a table of split hits."""
    kinds = {"trackerId": "string", **dict.fromkeys(("number", "block", "instant"), "int64")}
    blocks = long_blocks(ibis.table(kinds, name=table), longest=longest, most_hits=most_hits)
    return str(ibis.to_sql(blocks, dialect="duckdb"))
