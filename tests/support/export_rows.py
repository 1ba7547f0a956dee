"""Random rows of exports with the columns of their published schemas."""

import random
from datetime import datetime, timedelta

NEW_YEAR = 1_735_689_600
SOURCES = [
    ("google", "organic", "(organic)"),
    ("google", "cpc", "spring"),
    ("facebook.com", "referral", "(referral)"),
    ("forum.example", "referral", None),
    ("newsletter", "email", "january"),
    ("partner", "affiliate", None),
    ("(direct)", "(none)", "(direct)"),
]
GROUPS = {"organic": "Organic Search", "cpc": "Paid Search", "email": "Email", "affiliate": "Affiliates"}


def ga4_rows(seed):
    """Return rows of an export: sessions of browsers, of which some are signed in, some twice."""
    draw = random.Random(seed)
    rows = []
    for browser in range(12):
        accounts = draw.choice(
            [[None], ["anna"], [None, "ben"], ["anna", "ben"], [None, None, "dora", "emil"]]
        )
        device = None if accounts == ["anna"] and draw.random() < 0.5 else f"{browser}.{seed}"
        for visit in range(draw.randint(1, 4)):
            second = NEW_YEAR + browser * 50_000 + visit * 9_000 + draw.randrange(1_000)
            number = draw.choice([second, second - 5, second - 86_500, second + 30, 7 + visit])
            if device is None:
                # Sessions are told apart by who has them.
                number = second
            last_click = ga4_last_click(draw)
            for position in range(draw.randint(1, 5)):
                micros = second * 10**6 + draw.randrange(9) + position * 10**7
                row = ga4_row(draw, device, draw.choice(accounts), number, visit + 1, micros)
                # Google finds it for the session; some events lack it.
                rows.append(row | {"session_traffic_source_last_click": draw.choice([None, last_click])})
    draw.shuffle(rows)
    # Days overlap.
    return rows + rows[:5]


def ga4_last_click(draw):
    source, medium, campaign = draw.choice(SOURCES)
    names = {"source": source, "medium": medium, "campaign_name": campaign}
    return {
        "manual_campaign": names | {"content": draw.choice([None, "c"]), "term": draw.choice([None, "t"])},
        "google_ads_campaign": draw.choice([None, {"campaign_name": "Ads", "ad_group_name": "Group"}]),
        "cross_channel_campaign": names | {"default_channel_group": GROUPS.get(medium)},
    }


def ga4_row(draw, device, account, number, visit, micros):
    name = draw.choice(["page_view", "page_view", "screen_view", "purchase", "purchase", "lead", "scroll"])
    texts = {"page_location": f"https://shop.example/{draw.randrange(99)}", "page_title": "Shop"}
    if draw.random() < 0.3:
        texts["page_referrer"] = "https://www.google.com/"
    row = {
        "event_date": "20250101",
        "event_timestamp": micros,
        "event_name": name,
        "event_bundle_sequence_id": draw.randrange(10**6),
        "batch_page_id": draw.randrange(10**6),
        "batch_ordering_id": 1,
        "batch_event_index": draw.randrange(5),
        "user_id": account or ("anna" if device is None else None),
        "user_pseudo_id": device,
        "traffic_source": dict(zip(("source", "medium", "name"), draw.choice(SOURCES), strict=True)),
        "device": {
            "category": draw.choice(["mobile", "desktop", None]),
            "operating_system": draw.choice(["iOS", None]),
            "operating_system_version": "17.1",
            "browser": draw.choice(["Safari", None]),
            "browser_version": "17",
            "web_info": draw.choice([None, {"browser": "Chrome", "browser_version": "120"}]),
        },
        "geo": {"city": draw.choice(["Oslo", ""]), "region": "Oslo", "country": "Norway"},
    }
    source, medium, campaign = draw.choice(SOURCES)
    if draw.random() < 0.4:
        row["collected_traffic_source"] = {
            "manual_source": source,
            "manual_medium": medium,
            "manual_campaign_name": campaign,
            "manual_content": draw.choice([None, "banner"]),
            "manual_term": draw.choice([None, "boots"]),
            "manual_campaign_id": draw.choice([None, "17"]),
            "gclid": draw.choice([None, None, "Cj0K"]),
        }
    if draw.random() < 0.4:
        other = draw.choice(SOURCES)
        texts |= {
            key: value for key, value in zip(("source", "medium", "campaign"), other, strict=True) if value
        }
        if draw.random() < 0.3:
            texts["ignore_referrer"] = draw.choice(["true", "false"])
    params = [{"key": key, "value": {"string_value": text}} for key, text in texts.items()]
    if draw.random() < 0.9:
        params.append({"key": "ga_session_id", "value": {"int_value": number}})
        params.append({"key": "ga_session_number", "value": {"int_value": visit}})
    if name in ("purchase", "lead"):
        kind = draw.choice(["int_value", "double_value", "float_value", "string_value"])
        value = {"int_value": 20, "double_value": 20.25, "float_value": 19.5, "string_value": "18.75"}[kind]
        if draw.random() < 0.6:
            params.append({"key": "value", "value": {kind: value}})
        if draw.random() < 0.5:
            params.append({"key": "currency", "value": {"string_value": draw.choice(["EUR", "SEK"])}})
        if draw.random() < 0.6:
            params.append({"key": "transaction_id", "value": {"string_value": f"P{draw.randrange(9)}"}})
        row["ecommerce"] = draw.choice(
            [
                None,
                {"transaction_id": f"T{draw.randrange(9)}", "purchase_revenue": 99.5},
                {"transaction_id": "(not set)", "purchase_revenue": 12.0, "purchase_revenue_in_usd": 13.5},
                {"purchase_revenue_in_usd": 5.0},
            ]
        )
    draw.shuffle(params)
    return row | {"event_params": params}


def snowplow_rows(seed):
    """Return rows of ``atomic.events``: page views, pings and orders of browsers."""
    draw = random.Random(seed)
    rows = []
    for browser in range(10):
        accounts = draw.choice(
            [[None], ["anna"], [None, "ben"], ["anna", "ben"], [None, None, "dora", "emil"]]
        )
        for visit in range(draw.randint(1, 4)):
            start = datetime(2025, 1, 1 + browser) + timedelta(hours=3 * visit, seconds=draw.randrange(999))
            usual = {
                "domain_userid": draw.choice([f"d{browser}"] * 4 + [None]),
                "network_userid": f"n{browser}",
                "domain_sessionidx": visit + 1,
                "domain_sessionid": f"s{browser}.{visit}",
                "br_type": draw.choice(["Browser"] * 5 + ["Robot"]),
            }
            if draw.random() < 0.2:
                of_client = {
                    "user_id": f"c{browser}",
                    "session_id": f"cs{browser}.{visit}",
                    "session_index": 1,
                }
                usual |= {"domain_sessionid": None, "domain_userid": None}
                usual["contexts_com_snowplowanalytics_snowplow_client_session_1"] = [of_client]
            for at_ in range(draw.randint(1, 5)):
                moment = start + timedelta(seconds=60 * at_, milliseconds=draw.randrange(900))
                rows.append(
                    usual
                    | {"user_id": draw.choice(accounts)}
                    | snowplow_row(draw, moment, f"{seed}-{len(rows):04}")
                )
    draw.shuffle(rows)
    # The pipeline delivers at least once.
    return rows + rows[:4]


def snowplow_row(draw, moment, event_id):
    kind = draw.choice(
        ["page_view", "page_view", "page_ping", "transaction", "snowplow_ecommerce_action", "struct"]
    )
    row = {
        "event_id": event_id,
        "event": kind if kind != "snowplow_ecommerce_action" else "unstruct",
        "event_name": kind,
        "collector_tstamp": moment,
        "derived_tstamp": draw.choice([None, moment - timedelta(milliseconds=40)]),
        "true_tstamp": draw.choice([None, None, moment - timedelta(milliseconds=70)]),
        "page_url": f"https://shop.example/{draw.randrange(99)}",
        "page_referrer": draw.choice([None, "https://www.google.com/"]),
        "useragent": "Mozilla/5.0",
        "br_family": draw.choice(["Firefox", None]),
        "br_name": "Firefox 128",
        "os_family": draw.choice(["Linux", None]),
        "os_name": "Linux x",
        "dvce_type": "Computer",
        "geo_country": "NO",
        "geo_region": "03",
        "geo_region_name": draw.choice(["Oslo", None]),
        "geo_city": draw.choice(["Oslo", None]),
        "contexts_com_iab_snowplow_spiders_and_robots_1": draw.choice(
            [None, [{"spider_or_robot": False}], [{"spider_or_robot": False}], [{"spider_or_robot": True}]]
        ),
    }
    if draw.random() < 0.3:
        source, medium, campaign = draw.choice(SOURCES)
        row |= {"mkt_source": source, "mkt_medium": medium, "mkt_campaign": campaign}
        row |= {"mkt_content": draw.choice([None, "banner"]), "mkt_term": draw.choice([None, "boots"])}
    if draw.random() < 0.2:
        row |= {"mkt_clickid": "Cj0K", "mkt_network": draw.choice(["Google", None])}
    if draw.random() < 0.7:
        medium = draw.choice(["search", "social", "email", "paid", "unknown", "internal"])
        site = {"search": "Google", "social": "Facebook"}.get(medium)
        row |= {"refr_medium": medium, "refr_source": site, "refr_urlhost": f"{medium}.example"}
    if kind == "transaction":
        row |= {
            "tr_orderid": draw.choice([None, f"T{draw.randrange(9)}"]),
            "tr_total": draw.choice([None, 30.5]),
            "tr_currency": draw.choice([None, "EUR"]),
            "se_value": draw.choice([None, 4.5]),
        }
    if kind == "snowplow_ecommerce_action" and draw.random() < 0.7:
        order = {
            "transaction_id": f"E{draw.randrange(9)}",
            "revenue": 20.25,
            "currency": draw.choice([None, "USD"]),
        }
        row["contexts_com_snowplowanalytics_snowplow_ecommerce_transaction_1"] = [order]
    if kind == "struct":
        row |= {"se_category": "shop", "se_action": "lead", "se_value": draw.choice([None, 4.5])}
    return row
