"""Page views in logs and exports of other services, to load as hits, and the channels they come from."""

from __future__ import annotations

from attrib_ds.records import ga4_events, snowplow_events
from attrib_ds.records.export_tables import AccessLog
from attrib_ds.traffic.channel_rules import assign_channels, channel_rules

__all__ = ["GA4", "AccessLog", "Snowplow", "assign_channels", "channel_rules"]

GA4 = ga4_events.GA4Hits
Snowplow = snowplow_events.SnowplowHits


def __dir__() -> list[str]:
    return __all__
