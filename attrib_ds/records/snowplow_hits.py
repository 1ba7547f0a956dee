"""Reads the page views in Snowplow's enriched events as raw hits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from attrib_ds.records.exported_hits import create_page_views, with_parameters
from attrib_ds.records.numbered_rows import literal
from attrib_ds.records.snowplow_events import open_snowplow_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from attrib_ds.records.input_frames import FrameOrPath
    from attrib_ds.records.sources import Source

#: Parameters of a URL by the field that a pipeline reads from them, or from others that it is set up for.
_PARAMETERS: Final = {
    "utm_source": "mkt_source",
    "utm_medium": "mkt_medium",
    "utm_campaign": "mkt_campaign",
    "utm_content": "mkt_content",
    "utm_term": "mkt_term",
}
#: Click ids by ``mkt_network``.
_CLICK_IDS: Final = {"gclid": "Google", "msclkid": "Microsoft", "dclid": "DoubleClick"}


@dataclass(frozen=True, eq=False)
class SnowplowHits:
    """The page views in enriched events of Snowplow, to :func:`load` as hits.

    Sessions and traffic sources follow the rules of raw hits; :func:`read_snowplow` keeps those of Snowplow.

    Parameters
    ----------
    events : str, Path, DataFrame, or a list of those
        Rows of the table ``atomic.events``, or files of enriched events, as for :func:`read_snowplow`. Files
        may overlap, and may be loaded one by one.

    Notes
    -----
    Hits are the events ``page_view``. The browser (``domain_userid``, else ``network_userid``) is the
    tracker; ``page_url``, ``page_referrer``, ``useragent`` and ``geo_*`` are the properties of the hit. What
    ``mkt_*`` say beyond the URL is added to it as ``utm_*`` and click ids. Robots found by the enrichments
    are marked. ``user_ipaddress`` is used for filters and look-ups, and is not stored.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> events = pd.DataFrame({"event_id": ["11111111-1111-4111-8111-111111111111"],
    ...     "event_name": ["page_view"], "domain_userid": ["d"], "page_url": ["https://shop.example/"],
    ...     "page_referrer": ["https://duckduckgo.com/"],
    ...     "derived_tstamp": pd.to_datetime(["2025-01-01 10:00"])})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     print(at.load(shop, hits=at.SnowplowHits(events)))
    ...     at.search_interactions(shop)["nodeId"].tolist()
    <Loaded 1 hits, 1 interactions, 2 implicit_nodes, 0 skipped_events; 0 rows rejected>
    ['organic-search/duckduckgo']
    """

    events: FrameOrPath | Sequence[FrameOrPath] = field(repr=False)


def open_snowplow_hits(connection: duckdb.DuckDBPyConnection, hits: SnowplowHits) -> tuple[Source, int]:
    """Copy the page views of enriched events into a new table of a connection, as raw hits.

    Returns
    -------
    source : Source
        The raw hits; unreadable rows are those that are no events.
    skipped : int
        Number of events that are no page views.

    Raises
    ------
    InvalidRequest
        If the events cannot be read.
    """
    exports = open_snowplow_events(connection, hits.events)
    clicks = {
        name: f"CASE WHEN mkt_network = {literal(network)} THEN mkt_clickid END"
        for name, network in _CLICK_IDS.items()
    }
    columns = {
        "trackerId": "device",
        "date": "occurred",
        "pageUrl": with_parameters("page", _PARAMETERS | clicks),
        "referrer": "referrer",
        "userAgent": "agent",
        "isBot": "is_bot",
        "ip": "address",
        "geo.countryCode": "country",
        "geo.state": "region",
        "geo.city": "city",
        "geo.zipcode": "zipcode",
        "geo.latitude": "latitude",
        "geo.longitude": "longitude",
    }
    return create_page_views(connection, exports, columns, where="kind = 'page_view'")
