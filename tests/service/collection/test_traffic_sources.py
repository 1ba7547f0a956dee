"""The traffic source of a hit: every step of the precedence (G-193), and the type of referrer (G-194)."""

from __future__ import annotations

from urllib.parse import urlencode

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attrib_ds import assign_channels
from attrib_ds.service.collection.traffic_sources import resolve_source

GOOGLE = "https://www.google.com/"


@pytest.mark.parametrize(
    ("search", "referrer", "kind", "node"),
    [
        # A click id before the medium, and utm_* before the referrer.
        ("?gclid=1&utm_source=news&utm_medium=email", GOOGLE, "campaign", "google/cpc"),
        ("?gclid=1&utm_campaign=spring&utm_term=boots", "", "campaign", "google/cpc/spring///boots"),
        ("?msclkid=1", "https://www.bing.com/", "campaign", "bing/cpc"),
        ("?GCLID=1", "", "campaign", "google/cpc"),
        ("?gclid=", GOOGLE, "search", "organic-search/google"),
        ("?dclid=1", "", "campaign", "google/display"),
        ("?yclid=1&gclid=2", "", "campaign", "google/cpc"),
        ("?utm_source=news&utm_medium=email&utm_campaign=may", GOOGLE, "campaign", "news/email/may"),
        ("?utm_source=news", GOOGLE, "campaign", "news"),
        ("?utm_source=a%2Fb&utm_medium=c+d", "", "campaign", "a%2Fb/c d"),
        ("?utm_term=boots", GOOGLE, "search", "organic-search/google"),
        # Facebook marks posts too.
        ("?fbclid=1", "https://l.facebook.com/", "social", "organic-social/facebook"),
        ("?fbclid=1&utm_source=fb&utm_medium=paid_social", "", "campaign", "facebook/paid_social"),
        # Assistants by referrer, and by the source they add themselves.
        ("", "https://chatgpt.com/", "ai", "ai-assistants/chatgpt"),
        ("?utm_source=chatgpt.com", "", "ai", "ai-assistants/chatgpt"),
        ("?utm_source=chatgpt.com&utm_medium=cpc", "", "campaign", "chatgpt.com/cpc"),
        ("", "https://www.facebook.com/", "social", "organic-social/facebook"),
        ("", "https://mail.google.com/", "email", "gmail/email"),
        ("", "https://www.news.example/today", "referral", "referral/news.example"),
        ("", "", "direct", "direct"),
        ("?q=boots", "no url", "direct", "direct"),
        ("?utm_source=%00%20", "", "direct", "direct"),
        # Values that stand for a missing one.
        ("?utm_source=(not+set)", GOOGLE, "search", "organic-search/google"),
        # Case matters in values, not in the names of parameters.
        ("?UTM_SOURCE=Google&UTM_MEDIUM=CPC", "", "campaign", "Google/CPC"),
        ("?utm_source=q&utm_source=y", "", "campaign", "q"),
    ],
)
def test_precedence(search, referrer, kind, node):
    source = resolve_source(search, referrer)
    assert (source.referrer_type, source.nodes[-1].node_id) == (kind, node)


def test_an_internal_referrer_is_no_source():
    assert resolve_source("", "https://shop.example/", is_internal=True).referrer_type == "internal"
    assert resolve_source("", "https://shop.example/", is_internal=True).nodes[-1].node_id == "direct"


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("?utm_source=FLYERS&utm_campaign=May", ("flyers", "may", "May")),
        ("?utm_source=flyers&gclid=1", ("flyers", "default", "default")),
        ("?utm_source=flyers&utm_campaign=in%20May", ("flyers", "in-may", "in May")),
        ("?utm_source=others&utm_campaign=may", None),
    ],
)
def test_a_custom_campaign_outranks_everything(search, expected):
    """An integration by its vendorId, with the campaign and its slug (G-159, G-243)."""
    assert resolve_source(search, "", vendors=["other", "flyers"]).custom_campaign == expected


def test_channels_are_those_of_the_default_rules():
    cases = [("google", "cpc", "spring"), ("x", "y", "cross-network"), ("news", "email", ""), ("a", "", "b")]
    names = ("source", "medium", "campaign")
    expected = assign_channels(pd.DataFrame([dict(zip(names, case, strict=True)) for case in cases]))
    found = [
        resolve_source("&".join(f"utm_{n}={v}" for n, v in zip(names, case, strict=True)), "")
        .nodes[-1]
        .channel
        for case in cases
    ]
    assert found == expected.tolist() == ["Paid Search", "Cross-network", "Email", "Unassigned"]


def test_the_channel_of_a_root_does_not_depend_on_the_campaign():
    root, campaign = resolve_source("?utm_source=q&utm_medium=cpc&utm_campaign=cross-network", "").nodes
    assert (root.channel, campaign.channel) == ("Paid Other", "Cross-network")


@pytest.mark.parametrize(
    "host",
    [
        "google.evil.example",
        "docs.google.com",
        "accounts.google.com",
        "login.yahoo.com",
        "facebook.evil.example",
        "ebay.example",
        "amazon.evil.com",
        "ebay.com.evil.de",
        "perplexity.evil.example",
        "youtube.evil.example",
        "direct",
        "[2001:db8::1]",
        "192.0.2.1",
    ],
)
def test_a_host_with_the_name_of_a_known_site_is_a_referral(host):
    source = resolve_source("", f"https://{host}/")
    leaf = source.nodes[-1]
    assert (source.referrer_type, leaf.node_id, leaf.channel) == ("referral", f"referral/{host}", "Referral")


@pytest.mark.parametrize("host", ["amazon.de", "ebay.co.uk", "smile.amazon.com", "etsy.com"])
def test_shops_are_known_by_the_name_that_is_registered(host):
    leaf = resolve_source("", f"https://www.{host}/").nodes[-1]
    assert (leaf.node_id, leaf.channel) == (f"organic-shopping/{host}", "Organic Shopping")


WORDS = st.text(max_size=3) | st.sampled_from(
    [
        "google",
        "Google",
        "cpc",
        "organic",
        "organic-search",
        "direct",
        "(direct)",
        "(organic)",
        "(none)",
        "(not set)",
        "(data deleted)",
        "chatgpt",
        "social",
        "shop",
        "cross-network",
        "a/b",
        "%",
        "",
    ]
)
URLS = st.dictionaries(
    st.sampled_from(["utm_source", "utm_medium", "utm_campaign", "utm_term", "gclid"]), WORDS
)
REFERRERS = st.sampled_from(["", GOOGLE, "https://shop.example/", "https://ebay.de/", "https://direct/"])


@given(st.lists(st.tuples(URLS, REFERRERS), max_size=8))
@settings(deadline=None, max_examples=100)
@example([({"utm_source": "google"}, ""), ({}, GOOGLE)])
@example(
    [
        ({"utm_source": "direct", "utm_medium": medium, "utm_campaign": "x"}, "")
        for medium in ("", "(unavailable)")
    ]
)
def test_a_node_follows_from_its_id(hits):
    """So that no later hit can change a node, whatever its URL says."""
    nodes = {node for url, referrer in hits for node in resolve_source(urlencode(url), referrer).nodes}
    assert len({node.node_id for node in nodes}) == len(nodes)
