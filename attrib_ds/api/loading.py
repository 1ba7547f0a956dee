"""Bulk loading of an embedded project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from attrib_ds.errors import InvalidRequest
from attrib_ds.project import Project
from attrib_ds.records.access_logs import AccessLog
from attrib_ds.records.frames import TEXT, FrameOrPath, to_pandas
from attrib_ds.records.ga4_events import GA4Hits
from attrib_ds.records.snowplow_events import SnowplowHits


@dataclass(frozen=True)
class Loaded:
    """Result of :func:`load`.

    Attributes
    ----------
    counts : dict of str to int
        Loaded rows by kind; ``implicit_nodes`` counts nodes that were created because rows refer to them.
    rejected : DataFrame
        One row per rejected row: ``table`` (str), ``row`` (Int64, from 0), ``id`` (str), ``reason`` (str, all
        violations).
    """

    counts: dict[str, int]
    rejected: pd.DataFrame

    def __repr__(self) -> str:
        loaded = ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items()) or "nothing"
        return f"<Loaded {loaded}; {len(self.rejected):,} rows rejected>"


def load(
    project: Project,
    *,
    interactions: FrameOrPath | None = None,
    hits: FrameOrPath | AccessLog | GA4Hits | SnowplowHits | None = None,
    events: FrameOrPath | None = None,
    nodes: FrameOrPath | None = None,
    spend: FrameOrPath | None = None,
    replace: bool = False,
    geo: str | Path | None = None,
    asn: str | Path | None = None,
) -> Loaded:
    """Load tables into an embedded project in bulk.

    Invalid rows are returned with the reason, and the rest is loaded. Each table is loaded in one
    transaction, nodes first.

    Parameters
    ----------
    project : Project
        An embedded project.
    interactions, hits, events, nodes, spend : DataFrame, pyarrow.Table, str or Path, optional
        Rows with the columns of the resources (dotted, ``geo.city``), or the path of a Parquet, CSV or
        NDJSON file; NDJSON may be nested. ``_id`` is optional for interactions and events. Events have the
        columns ``states.<key>``, ``statistics.<key>``, ``statistics.<key>.amount`` and ``.currency``,
        ``event.<key>`` and ``user.<key>``. They need no event type; only sending events does
        (:func:`attrib_ds.create_event_type`), and reading them by the same columns instead of as JSON text.
        Spend is a table of outlays (``campaignId``, ``amount.amount``,
        ``amount.currency``, ``startDate``, ``endDate``).

        Hits are of loaded sessions (``sessionId``), or raw: with ``trackerId``, the id of the browser,
        ``date`` and ``pageUrl``, and optionally ``hitId`` (a UUID), ``referrer``, ``userAgent``, ``hitType``,
        ``timezoneOffset``, ``isBot``, ``ip``, ``geo.*`` and ``asn.*``; or an :class:`AccessLog`,
        :class:`GA4Hits` or :class:`SnowplowHits`. Raw hits become sessions, each with the node of its traffic
        source and its user, whatever the order in which they are loaded. A hit without ``hitId`` is
        identified by its content and skipped if it is stored already.
    replace : bool, default False
        Whether rows replace stored records with the same ids, unless the stored record has a later change;
        unchanged rows are not counted. By default such rows are rejected.
    geo, asn : str or Path, optional
        MMDB files, such as ``GeoLite2-City.mmdb`` and ``GeoLite2-ASN.mmdb``: raw hits with an address (the
        column ``ip``, or an :class:`AccessLog`) get the ``geo.*`` and ``asn.*`` that they do not have.
        Addresses are not stored.

    Returns
    -------
    Loaded
        Counts of loaded rows, and the rejected rows. With raw hits, ``interactions`` is the change of the
        number of sessions: a late hit may join two. ``skipped_requests`` of access logs and
        ``skipped_events`` of exports count what is no page view.

    Raises
    ------
    InvalidRequest
        If no table is given, a column is unknown or a file cannot be read; nothing of that table is loaded.
    NotSupported
        If the project is not embedded.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> nodes = pd.DataFrame({"_id": ["search"], "name": ["Search"], "type": ["channel"]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     at.load(shop, nodes=nodes).counts
    {'nodes': 1}

    Raw hits become sessions:

    >>> hits = pd.DataFrame({"trackerId": ["t", "t"],
    ...                      "date": pd.to_datetime(["2025-01-31 12:00Z", "2025-01-31 12:10Z"]),
    ...                      "pageUrl": ["https://shop.example/?gclid=1", "https://shop.example/boots"]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.load(shop, hits=hits)
    ...     at.search_interactions(shop)[["nodeId", "hitCount"]]
           nodeId  hitCount
    0  google/cpc         2
    """
    given = {"nodes": nodes, "interactions": interactions, "hits": hits, "events": events, "spend": spend}
    tables = {resource: source for resource, source in given.items() if source is not None}
    if not tables:
        raise InvalidRequest(f"load: nothing to load; give at least one of {', '.join(sorted(given))}")
    if hits is None and (geo, asn) != (None, None):
        raise InvalidRequest("geo and asn: only raw hits have addresses to look up; give hits=")
    counts: dict[str, int] = {}
    rejected = []
    for resource, source in tables.items():
        databases = {"geo": geo, "asn": asn} if resource == "hits" else {}
        answer = project.send("load_records", resource=resource, source=source, replace=replace, **databases)
        loaded: Any = answer.value
        for kind, count in loaded.items():
            counts[kind] = counts.get(kind, 0) + count
        refused = to_pandas(answer.read())
        refused.insert(0, "table", pd.Series(resource, index=refused.index, dtype=TEXT))
        rejected.append(refused)
    return Loaded(counts, pd.concat(rejected, ignore_index=True))
