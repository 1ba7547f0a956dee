"""Reads the page views in the BigQuery export of Google Analytics 4 as raw hits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from attrib_ds.records.exported_hits import create_page_views, with_parameters
from attrib_ds.records.ga4_events import open_ga4_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from attrib_ds.records.input_frames import FrameOrPath
    from attrib_ds.records.sources import Source

#: Parameters of a URL by the field of an event that Google reads from them.
_PARAMETERS: Final = {
    "utm_source": "source",
    "utm_medium": "medium",
    "utm_campaign": "campaign",
    "utm_content": "content",
    "utm_term": "term",
}
_CLICK_IDS: Final = ("gclid", "dclid")
_REFERRER: Final = "CASE WHEN p_ignore_referrer IS DISTINCT FROM 'true' THEN p_page_referrer END"


@dataclass(frozen=True, eq=False)
class GA4Hits:
    """The page views in an export of Google Analytics 4, to :func:`load` as hits.

    Sessions and traffic sources follow the rules of raw hits, so they may differ from those in Google's
    reports, which :func:`read_ga4` keeps.

    Parameters
    ----------
    exports : str, Path, DataFrame, or a list of those
        Rows of ``events_YYYYMMDD``, as for :func:`read_ga4`. Days may overlap, and may be loaded one by one.

    Notes
    -----
    Hits are the events ``page_view``. The browser (``user_pseudo_id``) is the tracker, ``page_location`` and
    ``page_referrer`` are the URLs. What ``collected_traffic_source``, or the parameters ``source``,
    ``medium`` and ``campaign`` of the event, say beyond the URL is added to it as ``utm_*``, ``gclid`` and
    ``dclid``; a source with the medium ``organic`` or ``referral`` only if there is no referrer. An export
    has no user agents, so bots are not marked. Its countries are names, not codes, and are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> def parameter(key, text):
    ...     return {"key": key, "value": {"string_value": text}}
    >>> events = pd.DataFrame({"event_timestamp": [1735725600000000, 1735725900000000],
    ...     "event_name": ["page_view", "purchase"], "user_pseudo_id": ["a.1", "a.1"],
    ...     "event_params": [[parameter("page_location", "https://shop.example/?gclid=1")], []]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     print(at.load(shop, hits=at.GA4Hits(events)))
    ...     at.search_interactions(shop)["nodeId"].tolist()
    <Loaded 1 hits, 1 interactions, 1 implicit_nodes, 1 skipped_events; 0 rows rejected>
    ['google/cpc']
    """

    exports: FrameOrPath | Sequence[FrameOrPath] = field(repr=False)


def open_ga4_hits(connection: duckdb.DuckDBPyConnection, hits: GA4Hits) -> tuple[Source, int]:
    """Copy the page views of an export into a new table of a connection, as raw hits.

    Returns
    -------
    source : Source
        The raw hits; unreadable rows are those that are no events.
    skipped : int
        Number of events that are no page views.

    Raises
    ------
    InvalidRequest
        If an export cannot be read.
    """
    exports = open_ga4_events(connection, hits.exports)
    # Google derives these media from the referrer, which tells more.
    is_referred = f"lower(medium) IN ('organic', 'referral') AND {_REFERRER} IS NOT NULL"
    added = {
        name: f"CASE WHEN {column} NOT LIKE '(%)' AND ({is_referred}) IS DISTINCT FROM true THEN {column} END"
        for name, column in _PARAMETERS.items()
    }
    columns = {
        "trackerId": "device",
        "date": "occurred",
        "pageUrl": with_parameters("p_page_location", added | {name: name for name in _CLICK_IDS}),
        "referrer": _REFERRER,
        # As browsers say it: minutes that UTC is ahead.
        "timezoneOffset": "CAST(offset_seconds AS DOUBLE) / -60",
        "geo.state": "region",
        "geo.city": "city",
    }
    return create_page_views(connection, exports, columns, where="event_name = 'page_view'")
