"""Page views in logs and exports of other services, to load as hits."""

from __future__ import annotations

from attrib_ds.records.export_tables import AccessLog
from attrib_ds.records.ga4_events import GA4Hits as GA4
from attrib_ds.records.snowplow_events import SnowplowHits as Snowplow

__all__ = ["GA4", "AccessLog", "Snowplow"]


def __dir__() -> list[str]:
    return __all__
