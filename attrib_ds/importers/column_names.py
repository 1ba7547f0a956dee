"""Common names of columns in users' files and in the tables of other services, by role.

The names of services are those of their published schemas: Google Analytics 4 (BigQuery, Fivetran), Snowplow
and its dbt packages, Segment, RudderStack and Matomo.
"""

from __future__ import annotations

import re
from typing import Final

from attrib_ds.queries.channel_rules import COLUMN_NAMES

#: Columns that make a node together, by the level that they name.
LEVEL_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "source": COLUMN_NAMES["source"],
    "medium": COLUMN_NAMES["medium"],
    "campaign": COLUMN_NAMES["campaign"],
    "adset": ("adset", "adset_name", "ad_group", "ad_group_name"),
    "ad": ("ad", "ad_name", "utm_content", "mkt_content", "marketing_content", "context_campaign_content"),
    "keyword": ("keyword", "utm_term", "mkt_term", "marketing_term", "context_campaign_term"),
}

#: Common names by role, in order of preference.
COMMON_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "user": (
        "user_id", "user", "customer_id", "customer", "client_id", "visitor_id", "cookie_id", "cookie",
        "person_id", "contact_id", "profile_id", "stitched_user_id", "user_identifier", "anonymous_id",
        "user_pseudo_id", "domain_userid", "network_userid", "full_visitor_id", "device_id", "uid",
        "session_id",
    ),
    # Names of users that identify a device or browser if there is a user too.
    "device": (
        "anonymous_id", "user_pseudo_id", "domain_userid", "network_userid", "full_visitor_id", "client_id",
        "visitor_id", "cookie_id", "cookie", "device_id",
    ),
    "node": (
        "node_id", "node", "channel", "marketing_channel", "channel_name", "channel_grouping",
        "source_medium", "session_source_medium", "touchpoint",
    ),
    # Used if there is no better one, and no two columns of a source and its campaign.
    "part_of_node": (
        "source", "campaign", "marketing_source", "utm_source", "utm_campaign", "mkt_source",
        "session_source", "medium", "default_channel_group", "session_default_channel_group",
        "default_channel_grouping", "referrer_name", "referrer_type", "referer_url_host", "refr_urlhost",
        "referrer", "context_page_referrer",
    ),
    "date": (
        "date", "time", "timestamp", "datetime", "event_date", "event_time", "event_timestamp",
        "touch_date", "touchpoint_date", "start_date", "visit_start_tstamp", "start_tstamp",
        "derived_tstamp", "collector_tstamp", "original_timestamp", "order_date", "conversion_date",
        "purchase_date", "cv_tstamp", "created_at", "occurred_at", "server_time", "visit_first_action_time",
        "received_at", "sent_at", "ts",
    ),
    # Times of day, beside a column of days.
    "time": (
        "time", "time_of_day", "event_time", "order_time", "purchase_time", "conversion_time", "visit_time",
        "session_time", "touch_time", "touchpoint_time", "click_time",
    ),
    "touch": ("touch_id", "touchpoint_id", "view_id"),
    "conversion": (
        "event_id", "conversion_id", "cv_id", "transaction_id", "order_id", "order_number", "id_order",
    ),
    "flag": ("conversion", "converted", "is_conversion", "conv_flag"),
    "value": (
        "value", "conversion_value", "revenue", "order_value", "amount", "turnover", "total", "total_price",
        "price", "purchase_revenue", "ecommerce_purchase_revenue", "cv_value", "tr_total",
        "revenue_local_currency", "unit_price", "item_price", "product_price", "lineitem_price",
    ),
    "quantity": (
        "quantity", "qty", "item_quantity", "product_quantity", "lineitem_quantity", "units",
    ),
    "currency": ("currency", "currency_code", "tr_currency", "local_currency", "site_currency"),
    "spend": ("spend", "cost", "amount"),
    "path": ("path", "paths", "journey", "transformed_path", "channel_transformed_path"),
    "conversions": ("conversions", "total_conversions", "n"),
    "total_value": ("value", "total_conversion_value", "total_value", "conversion_value", "revenue"),
    "nulls": ("nulls", "total_null", "total_nulls", "non_conversions"),
}  # fmt: skip


def folded(name: str) -> str:
    """Return a name without case and punctuation, which do not matter."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


#: Names, folded, of columns with the price of one piece.
UNIT_PRICES: Final = frozenset(
    map(folded, ("price", "unit_price", "item_price", "product_price", "lineitem_price"))
)


def level_of(column: str) -> str | None:
    """Return the level of a node that a column names, or None."""
    for level, names in LEVEL_NAMES.items():
        if folded(column) in map(folded, names):
            return level
    return None
