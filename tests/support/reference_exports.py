"""Exports of GA4, Snowplow and Matomo read row by row in plain Python, from the documentation of their schemas.

The importers are checked against it. Each reading returns what it found in plain values: sessions and
conversions with the name of their user, which is ``("account", id)`` or ``("device", id)``.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

EPOCH = datetime(1970, 1, 1)
DAY = timedelta(days=1)
User = tuple[str, str]


@dataclass
class Session:
    """A session: when, by whom, from where, and the details that its events give."""

    started: datetime
    ended: datetime
    node: str
    user: User
    is_bot: bool = False
    hits: int = 0
    details: dict[str, str | None] = field(default_factory=dict)


@dataclass
class Conversion:
    """A conversion; ``source_id`` is None if the export has no id of its own for it."""

    kind: str
    occurred: datetime
    user: User
    source_id: str | None = None
    amount: float | None = None
    currency: str | None = None


@dataclass
class Reading:
    """What an export says."""

    sessions: list[Session]
    conversions: list[Conversion]


SEARCH_SITES = {"google", "Google", "bing", "Bing"}
SOCIAL_SITES = {"facebook.com", "Facebook", "t.co"}
UNPAID = {"organic": "organic-search", "social": "organic-social", "referral": "referral"}
ROOT_OF_GROUP = {
    "Organic Search": "organic-search",
    "Organic Social": "organic-social",
    "Referral": "referral",
}
NOTHING = {None, "", "(none)", "(not set)"}
#: What Google calls the campaign of a visit that has none.
PLACEHOLDERS = {"(direct)", "(organic)", "(referral)"}


def node_of(source=None, medium=None, campaign=None, adset=None, ad=None, keyword=None, group=None):
    """Return the node of a traffic source, for the sources and media of the generated exports.

    ``group`` is the channel group, if the export names it.
    """
    source, medium, campaign, adset, ad, keyword = (
        None if part in NOTHING else part for part in (source, medium, campaign, adset, ad, keyword)
    )
    if campaign in PLACEHOLDERS:
        campaign = None
    if campaign is None and medium is None and source in (None, "(direct)"):
        return "direct"
    if campaign is None:
        root = UNPAID.get(medium)
        if root == "referral" and source in SOCIAL_SITES:
            root = "organic-social"
        if medium is None and source in SEARCH_SITES | SOCIAL_SITES:
            root = "organic-search" if source in SEARCH_SITES else "organic-social"
        if group is not None:
            root = ROOT_OF_GROUP.get(group)
        if root is not None:
            return root if source is None else f"{root}/{source}"
    parts = [source or "(not set)"] + [part or "" for part in (medium, campaign, adset, ad, keyword)]
    while not parts[-1]:
        parts.pop()
    return "/".join(parts)


#: What the id of a click says by itself, by the parameter that has it.
OF_CLICK = {
    "gclid": {"source": "google", "medium": "cpc"},
    "dclid": {"source": "google", "medium": "display"},
    "msclkid": {"source": "bing", "medium": "cpc"},
}
#: What the tags of a landing page are called in a record.
OF_TAG = {
    "utm_source": "source",
    "utm_medium": "medium",
    "utm_campaign": "campaign",
    "utm_content": "ad",
    "utm_term": "keyword",
}
OF_REFERRER = {"www.google.com": {"source": "google", "medium": "organic"}}


def node_of_visit(campaign, page, clicks, derived, referrer):
    """Return the node of a visit by its evidence, of which the first that says anything counts (G-248).

    The campaign of the vendor's record; the tags of the landing page; a click, which adds what these leave
    out; what the vendor derived; the referrer; direct. Records have the names of the arguments of
    :func:`node_of`; ``clicks`` are the names of click ids beside those of the page.
    """
    query = query_of(page)
    tags = {name: query[tag] for tag, name in OF_TAG.items() if tag in query}
    named, tags = said(campaign), said(tags)
    # Tags with another source than the record's are those of another click.
    if len({words["source"] for words in (named, tags) if "source" in words}) < 2:
        named = tags | named
    click = next((OF_CLICK[name] for name in OF_CLICK if name in query or name in clicks), {})
    if click or names_source(named):
        if not click.keys() <= named.keys():
            # The channel group is that of the words of the record alone.
            named.pop("group", None)
        return node_of(**{**click, **named})
    if names_source(said(derived)):
        return node_of(**said(derived))
    host = urlsplit(referrer or "").netloc
    return node_of(**OF_REFERRER[host]) if host else "direct"


def query_of(page):
    return dict(parse_qsl(urlsplit(page or "").query))


def said(words):
    """Return the words of a record that say something; those of a direct visit say nothing."""
    words = {name: word for name, word in words.items() if word not in NOTHING}
    if words.get("campaign") in PLACEHOLDERS:
        del words["campaign"]
    return {} if words.get("source") == "(direct)" and "campaign" not in words else words


def names_source(words):
    return any(name in words for name in ("source", "medium", "campaign"))


def users_of(sightings: list[tuple[str | None, str | None]], *, stitch: bool) -> Any:
    """Return a function that names the user of a device and an account.

    A device without an account belongs to the account seen on it, if there is exactly one.
    """
    seen: dict[str, set[str]] = defaultdict(set)
    for device, account in sightings:
        if device is not None and account is not None:
            seen[device].add(account)

    def user(device: str | None, account: str | None) -> User:
        if account is None and stitch and len(seen.get(device, ())) == 1:
            (account,) = seen[device]
        return ("device", device) if account is None else ("account", account)

    return user


def deduplicated(conversions: list[Conversion]) -> list[Conversion]:
    """Return the conversions, of those with one id and kind the first."""
    kept, seen = [], set()
    for conversion in sorted(conversions, key=lambda each: each.occurred):
        key = (conversion.kind, conversion.source_id)
        if conversion.source_id is None or key not in seen:
            seen.add(key)
            kept.append(conversion)
    return kept


def member(row: dict[str, Any], path: str) -> Any:
    """Return the value at a dotted path, None where there is none; blank text counts as none."""
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return None if isinstance(value, str) and not value.strip() else value


def first(*values: Any) -> Any:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)


# GA4 ------------------------------------------------------------------------------------------------------

MARKS = ("source", "medium", "campaign", "campaign_id", "content", "term", "gclid", "dclid")
LAST_CLICK = "session_traffic_source_last_click"


def ga4(
    rows: list[dict], *, conversions: set[str], traffic: str, stitch: bool, currency: str | None
) -> Reading:
    """Read rows of ``events_YYYYMMDD``."""
    events, keys = [], set()
    for row in rows:
        visitor = first(member(row, "user_pseudo_id"), member(row, "user_id"))
        key = (
            visitor,
            *(
                row.get(name)
                for name in (
                    "event_name",
                    "event_timestamp",
                    "event_bundle_sequence_id",
                    "batch_page_id",
                    "batch_ordering_id",
                    "batch_event_index",
                )
            ),
        )
        if visitor is None or key in keys:
            continue
        keys.add(key)
        events.append((row, visitor, _ga4_params(row)))
    events.sort(key=lambda event: event[0]["event_timestamp"])
    user = users_of(
        [(member(row, "user_pseudo_id"), member(row, "user_id")) for row, *_ in events], stitch=stitch
    )
    grouped: dict[tuple[str, int], list] = defaultdict(list)
    for event in events:
        session = event[2].get("ga_session_id")
        if session is not None:
            grouped[event[1], int(session)].append(event)
    sessions, accounts = [], {}
    for (visitor, number), own in grouped.items():
        account = _last([member(row, "user_id") for row, *_ in own])
        accounts[visitor, number] = account
        sessions.append(_ga4_session(number, own, traffic, user, account))
    found = []
    for row, visitor, params in events:
        if row["event_name"] not in conversions:
            continue
        session = params.get("ga_session_id")
        account = first(
            member(row, "user_id"), accounts.get((visitor, int(session))) if session is not None else None
        )
        named = [member(row, "ecommerce.transaction_id"), params.get("transaction_id")]
        amount, unit = _ga4_money(row, params, currency)
        found.append(
            Conversion(
                row["event_name"],
                _at(row),
                user(member(row, "user_pseudo_id"), account),
                next((each for each in named if each not in NOTHING), None),
                amount,
                None if amount is None else first(unit, currency),
            )
        )
    return Reading(sessions, deduplicated(found))


def _at(row: dict) -> datetime:
    return EPOCH + timedelta(microseconds=row["event_timestamp"])


def _last(values: list) -> Any:
    return first(*reversed(values))


def _ga4_params(row: dict) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for param in row.get("event_params") or ():
        value = first(*(param["value"].get(f"{kind}_value") for kind in ("string", "int", "double", "float")))
        if value is not None and param["key"] not in found:
            found[param["key"]] = str(value)
    return found


def _ga4_marks(row: dict, params: dict) -> dict[str, Any]:
    """Return what the event itself says about where the user came from, empty if nothing but direct."""
    collected = {
        "source": member(row, "collected_traffic_source.manual_source"),
        "medium": member(row, "collected_traffic_source.manual_medium"),
        "campaign": member(row, "collected_traffic_source.manual_campaign_name"),
        "campaign_id": member(row, "collected_traffic_source.manual_campaign_id"),
        "content": member(row, "collected_traffic_source.manual_content"),
        "term": member(row, "collected_traffic_source.manual_term"),
        "gclid": member(row, "collected_traffic_source.gclid"),
        "dclid": member(row, "collected_traffic_source.dclid"),
    }
    if any(collected.values()):
        marks = collected
    elif params.get("ignore_referrer") == "true":
        marks = {}
    else:
        marks = {name: params.get(name) for name in MARKS}
    marks = {name: value for name, value in marks.items() if value is not None}
    is_direct = marks.get("source") == "(direct)" and not {"gclid", "dclid"} & marks.keys()
    return {} if is_direct else marks


def _ga4_session(number: int, own: list, traffic: str, user: Any, account: str | None) -> Session:
    def once(*paths: str) -> Any:
        return first(*(first(*(member(row, path) for path in paths)) for row, *_ in own))

    def param(name: str) -> Any:
        return first(*(params.get(name) for *_, params in own))

    begun, ended = _at(own[0][0]), _at(own[-1][0])
    start = EPOCH + timedelta(seconds=number)
    marks = next((marks for row, _, params in own if (marks := _ga4_marks(row, params))), {})
    group = once(f"{LAST_CLICK}.cross_channel_campaign.default_channel_group")
    last = {
        name: once(f"{LAST_CLICK}.cross_channel_campaign.{name}", f"{LAST_CLICK}.manual_campaign.{name}")
        for name in ("source", "medium", "campaign_name")
    }
    if traffic == "last_click" and any(last.values()):
        node = node_of(
            last["source"],
            last["medium"],
            last["campaign_name"],
            once(f"{LAST_CLICK}.google_ads_campaign.ad_group_name"),
            once(f"{LAST_CLICK}.manual_campaign.content"),
            once(f"{LAST_CLICK}.manual_campaign.term"),
            group,
        )
    else:
        is_same = (marks.get("source"), marks.get("medium")) == (last["source"], last["medium"])
        opening = next((params for *_, params in own if "page_location" in params), {})
        page = opening.get("page_location")
        # Google Ads knows the campaign of the ad.
        is_ad = "gclid" in {*marks, *query_of(page)}
        ads = once(f"{LAST_CLICK}.google_ads_campaign.campaign_name") if is_ad else None
        adset = once(f"{LAST_CLICK}.google_ads_campaign.ad_group_name")
        record, derived = _ga4_records(own, marks, (ads, adset), group if is_same else None)
        ignored = opening.get("ignore_referrer") == "true"
        referrer = None if ignored else opening.get("page_referrer")
        node = node_of_visit(record, page, marks, derived, referrer)
    details = {
        "firstPage": param("page_location"),
        "referrer": param("page_referrer"),
        "userAgent.browser.name": once("device.web_info.browser", "device.browser"),
        "userAgent.os.name": once("device.operating_system"),
        "userAgent.os.version": once("device.operating_system_version"),
        "userAgent.device.type": once("device.category"),
        "geo.state": once("geo.region"),
        "geo.city": once("geo.city"),
    }
    return Session(
        start if begun - DAY <= start <= begun else begun,
        ended,
        node,
        user(member(own[0][0], "user_pseudo_id"), account),
        False,
        sum(row["event_name"] in ("page_view", "screen_view") for row, *_ in own),
        details,
    )


def _ga4_records(
    own: list, marks: dict, ads: tuple[str | None, str | None], group: str | None
) -> tuple[dict, dict]:
    """Return the campaign that Google's record of a session names, and what Google derived itself."""
    words = {name: marks.get(name) for name in ("source", "medium", "campaign")}
    words |= {"ad": marks.get("content"), "keyword": marks.get("term")}
    campaign, adset = ads
    if campaign is not None:
        return words | {"source": "google", "medium": "cpc", "campaign": campaign, "adset": adset}, {}
    words["group"] = group
    if marks.get("medium") in ("organic", "referral") and marks.get("campaign") in {None, *PLACEHOLDERS}:
        return {}, words
    if marks:
        return words, {}
    if max((int(params.get("ga_session_number", 0)) for *_, params in own), default=0) == 1:
        # What brought the user for the first time brought the first session.
        first_visit = {"source": "source", "medium": "medium", "campaign": "name"}
        return {}, {name: member(own[0][0], f"traffic_source.{path}") for name, path in first_visit.items()}
    return {}, {}


def _ga4_money(row: dict, params: dict, currency: str | None) -> tuple[float | None, str | None]:
    revenue, in_usd = (
        member(row, "ecommerce.purchase_revenue"),
        member(row, "ecommerce.purchase_revenue_in_usd"),
    )
    unit = first(params.get("currency"), currency)
    # Tables that lack the currency of a purchase often have its revenue in dollars alone.
    is_only = revenue is None and "value" not in params
    if in_usd is not None and (is_only or (unit is None and revenue is not None)):
        return in_usd, "USD"
    if revenue is None:
        return (float(params["value"]), unit) if "value" in params else (None, None)
    return revenue, unit


# Snowplow -------------------------------------------------------------------------------------------------

ROBOT = "contexts_com_iab_snowplow_spiders_and_robots_1"
ORDER = "contexts_com_snowplowanalytics_snowplow_ecommerce_transaction_1"
CLIENT = "contexts_com_snowplowanalytics_snowplow_client_session_1"
MEDIA = {
    "search": "organic",
    "social": "social",
    "email": "email",
    "paid": "cpc",
    "unknown": "referral",
    "internal": None,
    None: None,
}


def snowplow(rows: list[dict], *, conversions: set[str], stitch: bool, currency: str | None) -> Reading:
    """Read rows of ``atomic.events``."""
    events, ids = [], set()
    for row in rows:
        entities = {name: ((row.get(name) or [None])[0] or {}) for name in (ROBOT, ORDER, CLIENT)}
        device = first(
            member(row, "domain_userid"), entities[CLIENT].get("user_id"), member(row, "network_userid")
        )
        at = first(row.get("true_tstamp"), row.get("derived_tstamp"), row.get("collector_tstamp"))
        if row["event_id"] in ids or at is None or first(device, member(row, "user_id")) is None:
            continue
        ids.add(row["event_id"])
        index = row.get("domain_sessionidx")
        of_device = None
        if member(row, "domain_userid") is not None and index is not None:
            of_device = f"{row['domain_userid']}.{index}"
        events.append(
            {
                **row,
                "at": at,
                "kind": first(member(row, "event_name"), member(row, "event")),
                "device": device,
                "visit": first(
                    member(row, "domain_sessionid"), entities[CLIENT].get("session_id"), of_device
                ),
                "is_bot": member(row, "br_type") == "Robot" or entities[ROBOT].get("spider_or_robot") is True,
                "order": entities[ORDER],
            }
        )
    events.sort(key=lambda event: (event["at"], event["event_id"]))
    user = users_of([(event["device"], member(event, "user_id")) for event in events], stitch=stitch)
    grouped: dict[str, list] = defaultdict(list)
    for event in events:
        if event["visit"] is not None:
            grouped[event["visit"]].append(event)
    accounts = {key: _last([member(event, "user_id") for event in own]) for key, own in grouped.items()}
    sessions = [_snowplow_session(own, user, accounts[key]) for key, own in grouped.items()]
    found = []
    for event in events:
        is_order = bool(event["order"]) and event["kind"] == "snowplow_ecommerce_action"
        kind = "transaction" if is_order else event["kind"]
        if kind not in conversions or event["is_bot"]:
            continue
        order = event["order"]
        amount = first(event.get("tr_total"), order.get("revenue"), event.get("se_value"))
        unit = first(member(event, "tr_currency"), order.get("currency"), currency)
        found.append(
            Conversion(
                kind,
                event["at"],
                user(event["device"], first(member(event, "user_id"), accounts.get(event["visit"]))),
                first(member(event, "tr_orderid"), order.get("transaction_id"), event["event_id"]),
                amount,
                None if amount is None else unit,
            )
        )
    return Reading(sessions, deduplicated(found))


def _snowplow_session(own: list[dict], user: Any, account: str | None) -> Session:
    views = [event for event in own if event["kind"] in ("page_view", "screen_view")]
    opening = (views or own)[0]

    def once(*paths: str) -> Any:
        return first(*(first(*(member(event, path) for path in paths)) for event in own))

    tags = {
        "source": "source",
        "medium": "medium",
        "campaign": "campaign",
        "ad": "content",
        "keyword": "term",
    }
    record = {name: member(opening, f"mkt_{tag}") for name, tag in tags.items()}
    # An id alone does not tell whose it is.
    is_click = member(opening, "mkt_clickid") is not None and member(opening, "mkt_network") == "Google"
    medium = MEDIA[member(opening, "refr_medium")]
    site = first(*(member(opening, f"refr_{name}") for name in ("source", "urlhost")))
    derived = {} if medium is None else {"source": site, "medium": medium}
    node = node_of_visit(
        record,
        member(opening, "page_url"),
        {"gclid"} if is_click else (),
        derived,
        member(opening, "page_referrer"),
    )
    details = {
        "firstPage": member(opening, "page_url"),
        "referrer": member(opening, "page_referrer"),
        "userAgent.ua": once("useragent"),
        "userAgent.browser.name": once("br_family", "br_name"),
        "userAgent.os.name": once("os_family", "os_name"),
        "userAgent.device.type": once("dvce_type"),
        "geo.countryCode": once("geo_country"),
        "geo.state": once("geo_region_name", "geo_region"),
        "geo.city": once("geo_city"),
    }
    return Session(
        own[0]["at"],
        own[-1]["at"],
        node,
        user(own[0]["device"], account),
        any(event["is_bot"] for event in own),
        len(views),
        details,
    )


# Matomo ---------------------------------------------------------------------------------------------------


def matomo(visits: list[dict], *, stitch: bool, currency: str | None) -> Reading:
    """Read visits of ``Live.getLastVisitsDetails``."""
    latest: dict[tuple[str, str], dict] = {}
    for visit in visits:
        key = (str(first(visit.get("idSite"), 1)), str(visit["idVisit"]))
        if first(member(visit, "visitorId"), member(visit, "userId")) is None or _started(visit) is None:
            continue
        if key not in latest or (_ended(visit) or 0) > (_ended(latest[key]) or 0):
            latest[key] = visit
    user = users_of(
        [(member(visit, "visitorId"), member(visit, "userId")) for visit in latest.values()], stitch=stitch
    )
    sessions, found = [], []
    for (site, number), visit in latest.items():
        who = user(member(visit, "visitorId"), member(visit, "userId"))
        actions = visit.get("actionDetails") or []
        started = _started(visit)
        views = {
            first(action.get("pageId"), action.get("idpageview"), f"number {position}")
            for position, action in enumerate(actions)
            if action.get("type") == "action" and action.get("timestamp") is not None
        }
        country = member(visit, "countryCode")
        details = {
            "firstPage": actions[0].get("url") if actions else None,
            "referrer": member(visit, "referrerUrl"),
            "userAgent.browser.name": member(visit, "browserName"),
            "userAgent.os.name": member(visit, "operatingSystemName"),
            "userAgent.device.type": (member(visit, "deviceType") or "").lower() or None,
            "geo.countryCode": None if country in (None, "xx") else country.upper(),
            "geo.state": member(visit, "region"),
            "geo.city": member(visit, "city"),
        }
        sessions.append(
            Session(
                EPOCH + timedelta(seconds=started),
                EPOCH + timedelta(seconds=max(started, first(_ended(visit), started))),
                _matomo_node(visit),
                who,
                False,
                len(views),
                details,
            )
        )
        for action in actions:
            if action.get("timestamp") is None:
                continue
            at, unit = EPOCH + timedelta(seconds=int(action["timestamp"])), member(visit, "siteCurrency")
            revenue = None if action.get("revenue") is None else float(action["revenue"])
            if action.get("type") == "ecommerceOrder":
                id = first(action.get("orderId"), f"{site}.{number}.{action['timestamp']}")
                kind = "order"
            elif action.get("type") == "goal" and action.get("goalId") is not None:
                page = first(action.get("goalPageId"), action["timestamp"])
                id, kind = f"{site}.{number}.{action['goalId']}.{page}", f"goal_{action['goalId']}"
                # A goal without a revenue is reported with 0.
                revenue = revenue or None
            else:
                continue
            found.append(
                Conversion(kind, at, who, id, revenue, None if revenue is None else first(unit, currency))
            )
    return Reading(sessions, deduplicated(found))


def _ended(visit: dict) -> int | None:
    value = first(visit.get("lastActionTimestamp"), visit.get("serverTimestamp"))
    return None if value is None else int(value)


def _started(visit: dict) -> int | None:
    if visit.get("firstActionTimestamp") is not None:
        return int(visit["firstActionTimestamp"])
    ended = _ended(visit)
    return None if ended is None else ended - int(visit.get("visitDuration") or 0)


def _matomo_node(visit: dict) -> str:
    kind, name = member(visit, "referrerType"), member(visit, "referrerName")
    if kind == "campaign":
        source, medium = member(visit, "campaignSource"), member(visit, "campaignMedium")
        if source is None and medium is None:
            medium = "campaign"
        return node_of(
            source,
            medium,
            first(member(visit, "campaignName"), name),
            None,
            member(visit, "campaignContent"),
            first(member(visit, "campaignKeyword"), member(visit, "referrerKeyword")),
        )
    medium = {"search": "organic", "social": "social", "website": "referral"}.get(kind)
    return node_of(None if medium is None else name, medium)


# Raw hits -------------------------------------------------------------------------------------------------


def ga4_hits(rows: list[dict]) -> list[dict[str, Any]]:
    """Return the page views in rows of ``events_YYYYMMDD``, as raw hits."""
    hits = []
    for row in rows:
        params = _ga4_params(row)
        visitor = first(member(row, "user_pseudo_id"), member(row, "user_id"))
        if row["event_name"] != "page_view" or visitor is None:
            continue
        collected = {
            name: member(row, f"collected_traffic_source.{column}")
            for name, column in {
                "source": "manual_source",
                "medium": "manual_medium",
                "campaign": "manual_campaign_name",
                "campaign_id": "manual_campaign_id",
                "content": "manual_content",
                "term": "manual_term",
                "gclid": "gclid",
                "dclid": "dclid",
            }.items()
        }
        is_ignored = params.get("ignore_referrer") == "true"
        if not any(collected.values()):
            collected = {name: None if is_ignored else params.get(name) for name in collected}
        referrer = None if is_ignored else params.get("page_referrer")
        utm = {
            f"utm_{name}": collected[name]
            for name in ("source", "medium", "campaign", "content", "term")
            if not (collected[name] or "").startswith("(")
        }
        if collected["medium"] in ("organic", "referral") and referrer is not None:
            utm = {}
        clicks = {name: collected[name] for name in ("gclid", "dclid")}
        offset = member(row, "device.time_zone_offset_seconds")
        hits.append(
            {
                "trackerId": member(row, "user_pseudo_id"),
                "date": _at(row),
                "pageUrl": _with_parameters(params.get("page_location"), utm | clicks),
                "referrer": referrer,
                "timezoneOffset": None if offset is None else -offset / 60,
                "geo.state": member(row, "geo.region"),
                "geo.city": member(row, "geo.city"),
            }
        )
    return _distinct(hits)


def snowplow_hits(rows: list[dict]) -> list[dict[str, Any]]:
    """Return the page views in rows of ``atomic.events``, as raw hits."""
    hits = []
    for row in rows:
        robot, client = (((row.get(name) or [None])[0] or {}) for name in (ROBOT, CLIENT))
        device = first(member(row, "domain_userid"), client.get("user_id"), member(row, "network_userid"))
        at = first(row.get("true_tstamp"), row.get("derived_tstamp"), row.get("collector_tstamp"))
        kind = first(member(row, "event_name"), member(row, "event"))
        if kind != "page_view" or at is None or first(device, member(row, "user_id")) is None:
            continue
        names = ("source", "medium", "campaign", "content", "term")
        added = {f"utm_{name}": member(row, f"mkt_{name}") for name in names}
        click = {"Google": "gclid", "Microsoft": "msclkid", "DoubleClick": "dclid"}.get(
            row.get("mkt_network")
        )
        if click is not None:
            added[click] = member(row, "mkt_clickid")
        hits.append(
            {
                "trackerId": device,
                "date": at,
                "pageUrl": _with_parameters(member(row, "page_url"), added),
                "referrer": member(row, "page_referrer"),
                "userAgent": member(row, "useragent"),
                "isBot": member(row, "br_type") == "Robot" or robot.get("spider_or_robot") is True,
                "ip": member(row, "user_ipaddress"),
                "geo.countryCode": member(row, "geo_country"),
                "geo.state": first(member(row, "geo_region_name"), member(row, "geo_region")),
                "geo.city": member(row, "geo_city"),
                "geo.zipcode": member(row, "geo_zipcode"),
                "geo.latitude": _text(row.get("geo_latitude")),
                "geo.longitude": _text(row.get("geo_longitude")),
            }
        )
    return _distinct(hits)


def _with_parameters(page: str | None, parameters: dict[str, str | None]) -> str | None:
    if page is None:
        return None
    parts = urlsplit(page)
    own = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    added = [
        f"{name}={quote(value, safe='')}" for name, value in parameters.items() if value and name not in own
    ]
    return urlunsplit(parts._replace(query="&".join([*filter(None, [parts.query]), *added])))


def _text(number: float | None) -> str | None:
    return None if number is None else str(number)


def _distinct(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [hit for place, hit in enumerate(hits) if hit not in hits[:place]]
