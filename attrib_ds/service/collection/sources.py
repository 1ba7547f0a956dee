"""Resolves the traffic source of a hit from its URL and its referrer (G-193, G-194)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from attrib_ds.queries.channel_rules import default_channel, known_site, referrer_host
from attrib_ds.queries.traffic_nodes import Node, Traffic, chain, known_word, without_placeholders

if TYPE_CHECKING:
    from collections.abc import Collection

#: Source and medium of the clicks that ad platforms mark. The first of them that a URL has counts.
CLICK_IDS: Final = {
    "gclid": ("google", "cpc"),
    "gbraid": ("google", "cpc"),
    "wbraid": ("google", "cpc"),
    "dclid": ("google", "display"),
    "msclkid": ("bing", "cpc"),
    "fbclid": ("facebook", "social"),
    "ttclid": ("tiktok", "paid"),
    "li_fat_id": ("linkedin", "paid"),
    "twclid": ("twitter", "paid"),
    "yclid": ("yandex", "cpc"),
}
#: Facebook marks every outbound link, those of posts too.
_NOT_ONLY_ADS: Final = "fbclid"
_PAID: Final = re.compile(r".*cp.*|ppc|retargeting|paid.*", re.IGNORECASE)
_UTM: Final = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
#: Parameters of a URL that can name a source.
PARAMETERS: Final = (*_UTM, *CLICK_IDS)
#: Medium of the traffic of known sites that are named as the source, which decides their channel.
_MEDIA: Final = {"search": "organic", "social": "social", "ai": "ai-assistant", "email": "email"}
#: Medium of the nodes of unpaid channels, whose ids have none.
_UNPAID_MEDIA: Final = {
    "Organic Search": "organic",
    "Organic Social": "social",
    "Organic Video": "referral",
    "Organic Shopping": "referral",
    "AI Assistants": "ai-assistant",
    "Referral": "referral",
}
#: Channels of known sites whose traffic is a referral.
_REFERRING: Final = {"shopping": "Organic Shopping", "video": "Organic Video"}
#: Slug of the campaign of traffic that names an integration and no campaign (G-160).
DEFAULT_SLUG: Final = "default"
_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
#: Providers of payments, whose referrers are those of customers who return (G-190).
PAYMENT_HOSTS: Final = (
    "adyen.com", "afterpay.com", "checkout.com", "checkout.stripe.com", "hooks.stripe.com", "klarna.com",
    "mollie.com", "pay.amazon.com", "pay.google.com", "paypal.com", "secure.worldpay.com", "sofort.com",
)  # fmt: skip


@dataclass(frozen=True)
class TrafficSource:
    """The traffic source of hits.

    Parameters
    ----------
    referrer_type : str
        One of direct, search, social, ai, email, referral, campaign and internal.
    nodes : tuple of Node
        Its nodes, from the root down; empty for a custom campaign.
    custom_campaign : tuple of str, optional
        ``vendorId`` and slug of a custom campaign.
    """

    referrer_type: str
    nodes: tuple[Node, ...] = ()
    custom_campaign: tuple[str, str] | None = None


def resolve_source(
    search: str, referrer: str, *, is_internal: bool = False, vendors: Collection[str] = ()
) -> TrafficSource:
    """Return the traffic source of a hit.

    Parameters
    ----------
    search : str
        Query of the page's URL, with or without the question mark.
    referrer : str
        URL of the referrer; empty without one.
    is_internal : bool, default False
        Whether the referrer is a page of the site itself, or of a provider of payments.
    vendors : collection of str
        ``vendorId`` of each integration.

    Examples
    --------
    >>> ads = resolve_source("?utm_source=google&utm_medium=cpc&utm_campaign=spring", "")
    >>> ads.referrer_type, ads.nodes[-1].node_id, ads.nodes[-1].channel
    ('campaign', 'google/cpc/spring', 'Paid Search')
    >>> resolve_source("", "https://www.bing.com/").nodes[-1].node_id
    'organic-search/bing'
    >>> resolve_source("?utm_source=flyers&utm_campaign=may", "", vendors=["flyers"]).custom_campaign
    ('flyers', 'may')
    """
    values = _values(search)
    utm = [values.get(name) for name in _UTM]
    source, medium, campaign, content, term = utm
    if source is not None:
        vendor = next((vendor for vendor in vendors if vendor.casefold() == source.casefold()), None)
        slug = campaign or DEFAULT_SLUG
        if vendor is not None and _SLUG.fullmatch(slug):
            return TrafficSource("campaign", custom_campaign=(vendor, slug))
    click = next((name for name in CLICK_IDS if name in values), None)
    if click is not None:
        platform, usual = CLICK_IDS[click]
        is_paid = medium is not None and _PAID.fullmatch(medium) is not None
        kind = medium if is_paid and click == _NOT_ONLY_ADS else usual
        is_campaign = click != _NOT_ONLY_ADS or any(utm)
        nodes = _nodes(Traffic(platform, kind, campaign, ad=content, keyword=term))
        return TrafficSource("campaign" if is_campaign else "social", nodes)
    assistant = known_site(f"//{source}") if source and not any(utm[1:]) else None
    if assistant is not None and assistant.kind == "ai":
        return _of_site(assistant.name, "ai")
    if any((source, medium, campaign)):
        return TrafficSource("campaign", _nodes(Traffic(source, medium, campaign, ad=content, keyword=term)))
    if is_internal:
        return TrafficSource("internal", chain(Traffic()))
    site = known_site(referrer)
    if site is not None and site.kind in _MEDIA:
        return _of_site(site.name, site.kind)
    host = referrer_host(referrer).removeprefix("www.")
    if host:
        channel = _REFERRING[site.kind] if site is not None else "Referral"
        return TrafficSource("referral", chain(Traffic(host, "referral", channel=channel)))
    return TrafficSource("direct", chain(Traffic()))


def _values(search: str) -> dict[str, str]:
    """Return the first value of each parameter that can name a source."""
    values: dict[str, str] = {}
    for name, value in parse_qsl(search.removeprefix("?"), errors="replace"):
        word = known_word("".join(letter for letter in value if letter.isprintable()))
        if name.lower() in PARAMETERS and word is not None:
            values.setdefault(name.lower(), word)
    return values


def _of_site(name: str, kind: str) -> TrafficSource:
    return TrafficSource(kind, _nodes(Traffic(name, _MEDIA[kind])))


def _nodes(traffic: Traffic) -> tuple[Node, ...]:
    """Return nodes whose description follows from their id, whatever traffic is seen first."""
    traffic = without_placeholders(traffic)
    source, medium = traffic.source or "", traffic.medium or ""
    channel = default_channel()(source, medium, traffic.campaign or "")
    nodes = chain(replace(traffic, channel=channel))
    if nodes[0].kind == "integration":
        return replace(nodes[0], channel=default_channel()(source, medium, "")), *nodes[1:]
    return tuple(replace(node, medium=_UNPAID_MEDIA.get(channel, node.medium)) for node in nodes)
