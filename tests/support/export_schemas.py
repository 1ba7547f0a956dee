"""The published schemas of the exports that the importers read: columns in order, with their types.

Sources, read in 2025:

- GA4: "BigQuery Export schema", https://support.google.com/analytics/answer/7029846
- Snowplow: the table ``atomic.events``, version 0.11.0, and "Snowplow atomic event properties",
  https://docs.snowplow.io/docs/fundamentals/canonical-event/
- Matomo: the members of a visit and of its actions in a response of ``Live.getLastVisitsDetails``,
  https://developer.matomo.org/api-reference/reporting-api#Live, with those that the plug-in Marketing
  Campaigns Reporting adds
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT, WHOLE, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
INSTANT = pa.timestamp("us")

_VALUE = {"string_value": TEXT, "int_value": WHOLE, "float_value": NUMBER, "double_value": NUMBER}
_MANUAL = {
    "campaign_id": TEXT, "campaign_name": TEXT, "source": TEXT, "medium": TEXT, "term": TEXT, "content": TEXT,
    "source_platform": TEXT, "creative_format": TEXT, "marketing_tactic": TEXT,
}  # fmt: skip
#: A list is a repeated record, a dict a record.
GA4: dict[str, Any] = {
    "event_date": TEXT,
    "event_timestamp": WHOLE,
    "event_name": TEXT,
    "event_params": [{"key": TEXT, "value": _VALUE}],
    "event_previous_timestamp": WHOLE,
    "event_value_in_usd": NUMBER,
    "event_bundle_sequence_id": WHOLE,
    "event_server_timestamp_offset": WHOLE,
    "user_id": TEXT,
    "user_pseudo_id": TEXT,
    "privacy_info": {"analytics_storage": TEXT, "ads_storage": TEXT, "uses_transient_token": TEXT},
    "user_properties": [{"key": TEXT, "value": {**_VALUE, "set_timestamp_micros": WHOLE}}],
    "user_first_touch_timestamp": WHOLE,
    "user_ltv": {"revenue": NUMBER, "currency": TEXT},
    "device": {
        "category": TEXT, "mobile_brand_name": TEXT, "mobile_model_name": TEXT, "mobile_marketing_name": TEXT,
        "mobile_os_hardware_model": TEXT, "operating_system": TEXT, "operating_system_version": TEXT,
        "vendor_id": TEXT, "advertising_id": TEXT, "language": TEXT, "is_limited_ad_tracking": TEXT,
        "time_zone_offset_seconds": WHOLE, "browser": TEXT, "browser_version": TEXT,
        "web_info": {"browser": TEXT, "browser_version": TEXT, "hostname": TEXT},
    },
    "geo": {
        "city": TEXT, "country": TEXT, "continent": TEXT, "region": TEXT, "sub_continent": TEXT, "metro": TEXT,
    },
    "app_info": {
        "id": TEXT, "version": TEXT, "install_store": TEXT, "firebase_app_id": TEXT, "install_source": TEXT,
    },
    "traffic_source": {"name": TEXT, "medium": TEXT, "source": TEXT},
    "stream_id": TEXT,
    "platform": TEXT,
    "event_dimensions": {"hostname": TEXT},
    "ecommerce": {
        "total_item_quantity": WHOLE, "purchase_revenue_in_usd": NUMBER, "purchase_revenue": NUMBER,
        "refund_value_in_usd": NUMBER, "refund_value": NUMBER, "shipping_value_in_usd": NUMBER,
        "shipping_value": NUMBER, "tax_value_in_usd": NUMBER, "tax_value": NUMBER, "unique_items": WHOLE,
        "transaction_id": TEXT,
    },
    "items": [{"item_id": TEXT, "item_name": TEXT, "price": NUMBER, "quantity": WHOLE}],
    "collected_traffic_source": {
        "manual_campaign_id": TEXT, "manual_campaign_name": TEXT, "manual_source": TEXT, "manual_medium": TEXT,
        "manual_term": TEXT, "manual_content": TEXT, "manual_source_platform": TEXT,
        "manual_creative_format": TEXT, "manual_marketing_tactic": TEXT, "gclid": TEXT, "dclid": TEXT,
        "srsltid": TEXT,
    },
    "is_active_user": FLAG,
    "batch_event_index": WHOLE,
    "batch_page_id": WHOLE,
    "batch_ordering_id": WHOLE,
    "session_traffic_source_last_click": {
        "manual_campaign": _MANUAL,
        "google_ads_campaign": {
            "customer_id": TEXT, "account_name": TEXT, "campaign_id": TEXT, "campaign_name": TEXT,
            "ad_group_id": TEXT, "ad_group_name": TEXT,
        },
        "cross_channel_campaign": {
            "campaign_id": TEXT, "campaign_name": TEXT, "source": TEXT, "medium": TEXT, "source_platform": TEXT,
            "default_channel_group": TEXT, "primary_channel_group": TEXT,
        },
    },
    "publisher": {"ad_revenue_in_usd": NUMBER, "ad_format": TEXT},
}  # fmt: skip


def _columns(kind: pa.DataType, names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names.split(), kind)


#: Entities have a column each, named for the schema and its major version.
SNOWPLOW: dict[str, Any] = {
    **_columns(TEXT, "app_id platform"),
    **_columns(INSTANT, "etl_tstamp collector_tstamp dvce_created_tstamp"),
    **_columns(TEXT, "event event_id"),
    "txn_id": WHOLE,
    **_columns(TEXT, "name_tracker v_tracker v_collector v_etl user_id user_ipaddress user_fingerprint"),
    "domain_userid": TEXT,
    "domain_sessionidx": WHOLE,
    **_columns(TEXT, "network_userid geo_country geo_region geo_city geo_zipcode"),
    **_columns(NUMBER, "geo_latitude geo_longitude"),
    **_columns(TEXT, "geo_region_name ip_isp ip_organization ip_domain ip_netspeed"),
    **_columns(TEXT, "page_url page_title page_referrer page_urlscheme page_urlhost"),
    "page_urlport": WHOLE,
    **_columns(TEXT, "page_urlpath page_urlquery page_urlfragment refr_urlscheme refr_urlhost"),
    "refr_urlport": WHOLE,
    **_columns(TEXT, "refr_urlpath refr_urlquery refr_urlfragment refr_medium refr_source refr_term"),
    **_columns(TEXT, "mkt_medium mkt_source mkt_term mkt_content mkt_campaign"),
    **_columns(TEXT, "se_category se_action se_label se_property"),
    "se_value": NUMBER,
    **_columns(TEXT, "tr_orderid tr_affiliation"),
    **_columns(NUMBER, "tr_total tr_tax tr_shipping"),
    **_columns(TEXT, "tr_city tr_state tr_country ti_orderid ti_sku ti_name ti_category"),
    "ti_price": NUMBER,
    **_columns(WHOLE, "ti_quantity pp_xoffset_min pp_xoffset_max pp_yoffset_min pp_yoffset_max"),
    **_columns(TEXT, "useragent br_name br_family br_version br_type br_renderengine br_lang"),
    **_columns(FLAG, "br_features_pdf br_features_flash br_features_java br_features_director"),
    **_columns(FLAG, "br_features_quicktime br_features_realplayer br_features_windowsmedia"),
    **_columns(FLAG, "br_features_gears br_features_silverlight br_cookies"),
    "br_colordepth": TEXT,
    **_columns(WHOLE, "br_viewwidth br_viewheight"),
    **_columns(TEXT, "os_name os_family os_manufacturer os_timezone dvce_type"),
    "dvce_ismobile": FLAG,
    **_columns(WHOLE, "dvce_screenwidth dvce_screenheight"),
    "doc_charset": TEXT,
    **_columns(WHOLE, "doc_width doc_height"),
    "tr_currency": TEXT,
    **_columns(NUMBER, "tr_total_base tr_tax_base tr_shipping_base"),
    "ti_currency": TEXT,
    "ti_price_base": NUMBER,
    **_columns(TEXT, "base_currency geo_timezone mkt_clickid mkt_network etl_tags"),
    "dvce_sent_tstamp": INSTANT,
    "refr_domain_userid": TEXT,
    "refr_dvce_tstamp": INSTANT,
    "domain_sessionid": TEXT,
    "derived_tstamp": INSTANT,
    **_columns(TEXT, "event_vendor event_name event_format event_version event_fingerprint"),
    "true_tstamp": INSTANT,
    "contexts_com_iab_snowplow_spiders_and_robots_1": [
        {"spider_or_robot": FLAG, "category": TEXT, "reason": TEXT, "primary_impact": TEXT}
    ],
    "contexts_com_snowplowanalytics_snowplow_ecommerce_transaction_1": [
        {"transaction_id": TEXT, "revenue": NUMBER, "currency": TEXT, "payment_method": TEXT}
    ],
    "contexts_com_snowplowanalytics_snowplow_client_session_1": [
        {"user_id": TEXT, "session_id": TEXT, "session_index": WHOLE, "previous_session_id": TEXT}
    ],
}

#: Numbers come as text or as numbers, whatever the version wrote.
MATOMO_ACTION: tuple[str, ...] = (
    "type", "url", "pageTitle", "pageIdAction", "idpageview", "serverTimePretty", "pageId", "timeSpent",
    "timeSpentPretty", "pageLoadTime", "pageviewPosition", "title", "subtitle", "icon", "timestamp", "goalId",
    "goalName", "goalPageId", "revenue", "orderId", "revenueSubTotal", "revenueTax", "revenueShipping",
    "revenueDiscount", "items", "itemDetails",
)  # fmt: skip
MATOMO_VISIT: tuple[str, ...] = (
    "idSite", "idVisit", "visitIp", "visitorId", "fingerprint", "actionDetails", "goalConversions",
    "siteCurrency", "siteCurrencySymbol", "serverDate", "visitServerHour", "lastActionTimestamp",
    "lastActionDateTime", "siteName", "serverTimestamp", "firstActionTimestamp", "serverTimePretty",
    "serverDatePretty", "serverDatePrettyFirstAction", "serverTimePrettyFirstAction", "userId", "visitorType",
    "visitorTypeIcon", "visitConverted", "visitConvertedIcon", "visitCount", "visitEcommerceStatus",
    "visitEcommerceStatusIcon", "daysSinceFirstVisit", "secondsSinceFirstVisit", "daysSinceLastEcommerceOrder",
    "secondsSinceLastEcommerceOrder", "visitDuration", "visitDurationPretty", "searches", "actions",
    "interactions", "referrerType", "referrerTypeName", "referrerName", "referrerKeyword",
    "referrerKeywordPosition", "referrerUrl", "referrerSearchEngineUrl", "referrerSearchEngineIcon",
    "referrerSocialNetworkUrl", "referrerSocialNetworkIcon", "languageCode", "language", "deviceType",
    "deviceTypeIcon", "deviceBrand", "deviceModel", "operatingSystem", "operatingSystemName",
    "operatingSystemIcon", "operatingSystemCode", "operatingSystemVersion", "browserFamily",
    "browserFamilyDescription", "browser", "browserName", "browserIcon", "browserCode", "browserVersion",
    "totalEcommerceRevenue", "totalEcommerceConversions", "totalEcommerceItems", "totalAbandonedCartsRevenue",
    "totalAbandonedCarts", "totalAbandonedCartsItems", "events", "continent", "continentCode", "country",
    "countryCode", "countryFlag", "region", "regionCode", "city", "location", "latitude", "longitude",
    "visitLocalTime", "visitLocalHour", "daysSinceLastVisit", "secondsSinceLastVisit", "resolution", "plugins",
    "pluginsIcons", "provider", "providerName", "providerUrl", "customVariables", "campaignId",
    "campaignContent", "campaignKeyword", "campaignMedium", "campaignName", "campaignSource", "campaignGroup",
    "campaignPlacement", "dimension1",
)  # fmt: skip


def leaves(schema: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all columns, and of the members of records."""
    for name, kind in schema.items():
        yield (*above, name)
        if isinstance(kind, dict):
            yield from leaves(kind, (*above, name))


def without(record: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return a schema or a row without one column or member."""
    name, *rest = path
    if not rest:
        return {key: value for key, value in record.items() if key != name}
    if not isinstance(inner := record.get(name), dict):
        return record
    # A record without members is none.
    return without(record, (name,)) | ({name: kept} if (kept := without(inner, tuple(rest))) else {})


def arrow(rows: list[dict[str, Any]], schema: dict[str, Any]) -> pa.Table:
    """Return rows as a table of a schema; members that a row lacks are null."""
    return pa.Table.from_pylist(rows, pa.schema([(name, _type(kind)) for name, kind in schema.items()]))


def _type(kind: Any) -> pa.DataType:
    if isinstance(kind, list):
        return pa.list_(_type(kind[0]))
    if isinstance(kind, dict):
        return pa.struct([(name, _type(member)) for name, member in kind.items()])
    return kind
