"""The traffic source of a hit: every step of the precedence (G-193), and the type of referrer (G-194)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.service_records import uuid

from attrib_ds import admin, connect, hits, list_nodes, load, search_interactions
from attrib_ds.contract.identifiers import slug_of
from attrib_ds.traffic.channel_rules import returning_hosts, returning_sites
from attrib_ds.traffic.sources import is_internal, resolve_source

GOOGLE = "https://www.google.com/"


@pytest.mark.parametrize(
    ("search", "referrer", "kind", "node"),
    [
        # What the link says before the mark of a click, which adds what is missing, and both before the referrer.
        ("?gclid=1&utm_source=news&utm_medium=email", GOOGLE, "campaign", "news/email"),
        (
            "?utm_source=newsletter&utm_medium=email&fbclid=1",
            "https://l.facebook.com/",
            "campaign",
            "newsletter/email",
        ),
        ("?utm_source=newsletter&fbclid=1", "", "campaign", "newsletter"),
        ("?utm_source=news&ttclid=1&utm_medium=email", "", "campaign", "news/email"),
        ("?utm_source=instagram&fbclid=1", "", "campaign", "organic-social/instagram"),
        ("?utm_campaign=may&gclid=1", "", "campaign", "google/cpc/may"),
        ("?fbclid=1", "https://l.instagram.com/", "social", "organic-social/instagram"),
        ("?igshid=1", "", "social", "organic-social/instagram"),
        ("?ScCid=1", "", "campaign", "snapchat/paid"),
        ("?epik=1", "https://www.pinterest.com/", "campaign", "pinterest/paid"),
        ("?rdt_cid=1", "", "campaign", "reddit/paid"),
        # Matomo's and Piwik's names, links in escaped HTML, fragments, and ref.
        (
            "?mtm_source=news&mtm_medium=email&mtm_campaign=may&mtm_kwd=x",
            GOOGLE,
            "campaign",
            "news/email/may///x",
        ),
        ("?pk_campaign=may&pk_source=news", "", "campaign", "news//may"),
        ("?mtm_cpn=may", "", "campaign", "(not set)//may"),
        ("?a=1&amp;utm_source=news&amp;utm_medium=email", "", "campaign", "news/email"),
        ("?a=1#utm_source=news&utm_medium=email", "", "campaign", "news/email"),
        # Ordinary words decide nothing.
        ("?ref=producthunt&via=a&aff=b&clickid=c", "", "direct", "direct"),
        ("?ref=producthunt&utm_source=news", "", "campaign", "news"),
        # Marks of mail programs, of affiliate networks and of free listings.
        ("?_kx=abc", "", "campaign", "klaviyo/email"),
        ("?mc_cid=abc", "", "campaign", "mailchimp/email"),
        ("?hsa_acc=1&hsa_net=adwords&hsa_cam=2", "", "campaign", "google/cpc"),
        ("?hsa_acc=1&hsa_cam=2", "", "campaign", "hubspot/paid"),
        ("?irclickid=abc", "https://blog.example/", "campaign", "impact/affiliate"),
        ("?ranSiteID=abc", "", "campaign", "rakuten/affiliate"),
        ("?tblci=abc", "", "campaign", "taboola/paid"),
        ("?gad_campaignid=1", GOOGLE, "campaign", "google/cpc"),
        ("?srsltid=abc", "", "search", "organic-search/google"),
        ("?wickedid=abc", "", "direct", "direct"),
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
        ("?fbclid=1&utm_source=fb&utm_medium=paid_social", "", "campaign", "fb/paid_social"),
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
    """An integration by its vendorId, with the campaign and its slug (G-159, G-246)."""
    assert resolve_source(search, "", vendors=["other", "flyers"]).custom_campaign == expected


def test_channels_are_those_of_the_default_rules():
    cases = [("google", "cpc", "spring"), ("x", "y", "cross-network"), ("news", "email", ""), ("a", "", "b")]
    names = ("source", "medium", "campaign")
    expected = hits.assign_channels(pd.DataFrame([dict(zip(names, case, strict=True)) for case in cases]))
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
@settings(max_examples=100)
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


def test_g240_a_payment_a_bank_or_a_login_is_no_source():
    hosts = [*returning_sites(), "paypal.com", "secure7.arcot.com", "tenant.eu.auth0.com"]
    assert len(hosts) > 100
    assert [host for host in hosts if not is_internal("shop.example", host, set(returning_sites()))] == []
    others = ["paypal.example", "notpaypal.com", "partner.example", "com", "example"]
    assert [host for host in others if is_internal("shop.example", host, set(returning_sites()))] == []


PAIRS = pd.read_csv(Path(__file__).with_name("pairs.tsv"), sep="\t", skiprows=1, keep_default_na=False)


def test_pairs_of_url_and_referrer():
    """The source of each pair as the first hit, and whether it ends a session five minutes old (G-190)."""
    pages = "https://shop.example/" + PAIRS["page"].str.removeprefix("/")
    pages = PAIRS["page"].where(PAIRS["page"].str.startswith("http"), pages)
    hosts = pages.str.extract("(https?://[^/]+)")[0]
    hits = [
        {"trackerId": f"{kind}{number}", "date": f"2025-03-01T10:{minutes}:00Z", "pageUrl": page} | more
        for number, page in enumerate(pages)
        for kind, minutes, page, more in [
            ("first-", "05", page, {"referrer": PAIRS["referrer"][number]}),
            ("later-", "00", f"{hosts[number]}/?utm_source=seed&utm_medium=seed", {"referrer": ""}),
            ("later-", "05", page, {"referrer": PAIRS["referrer"][number]}),
        ]
    ]
    frame = pd.DataFrame(hits).assign(hitId=[uuid(number + 1) for number in range(len(hits))])
    frame["date"] = pd.to_datetime(frame["date"])
    with connect("shop", path=":memory:") as shop:
        admin.update_settings(shop, domains=["till.example"])
        assert load(shop, hits=frame).rejected.empty
        found = search_interactions(shop, bots=None, limit=None, columns=["nodeId", "firstHitId"])
        nodes = list_nodes(shop).set_index("_id")
    found["row"] = found["firstHitId"].map(dict(zip(frame["hitId"], frame.index, strict=True)))
    node_of = found.set_index("row")["nodeId"]
    opens = (PAIRS.index * 3 + 2).isin(node_of.index)
    columns = ["channel", "source", "medium", "campaignSlug"]
    seen = nodes.loc[node_of[PAIRS.index * 3], columns].fillna("").set_axis(PAIRS.index)
    seen = seen.rename(columns={"campaignSlug": "campaign"}).assign(opens=np.where(opens, "yes", "no"))
    expected = PAIRS[["channel", "source", "medium", "campaign", "opens"]]
    expected = expected.assign(campaign=[text and slug_of(text) for text in expected["campaign"]])
    wrong = (seen.astype(str) != expected).any(axis=1)
    assert len(PAIRS) > 150
    assert not wrong.any(), PAIRS[wrong].join(seen[wrong].add_suffix(" found")).to_csv(sep="\t")


def test_parameters_after_the_fragment_are_read_of_stored_hits():
    hits = pd.DataFrame(
        {"hitId": [uuid(1)], "trackerId": ["t"], "date": [pd.Timestamp("2025-03-01T10:00:00Z")]}
        | {"pageUrl": ["https://shop.example/#/boots?utm_source=news&amp;utm_medium=email"]}
    )
    with connect("shop", path=":memory:") as shop:
        assert load(shop, hits=hits).rejected.empty
        assert search_interactions(shop, bots=None)["nodeId"].tolist() == ["news/email"]


@pytest.mark.parametrize(
    ("host", "returns"),
    [
        ("acs.bank.example", True),
        ("3ds2.bank.co.uk", True),
        ("secure5.arcot.example", True),
        ("acs.org", False),
        ("www.3ds.com", False),
        ("buy.stripe.com", True),
        ("pay.link.com", True),
        ("sumup.com", True),
        ("www.mercadopago.com.ar", True),
        ("stripe.com", False),
    ],
)
def test_visitors_return_from_payments_and_checks_of_banks(host, returns):
    assert is_internal("shop.example", host.removeprefix("www."), returning_hosts()) is returns
