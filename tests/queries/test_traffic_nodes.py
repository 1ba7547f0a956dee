"""Where visits came from, as chains of nodes."""

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.queries.traffic_nodes import Traffic, chain, referrer_type, tree


def channel_of(source=None, medium=None, campaign=None):
    frame = pd.DataFrame({"source": [source], "medium": [medium], "campaign": [campaign]})
    return at.assign_channels(frame).item()


def ids(**fields):
    of_traffic = {name: fields.get(name) for name in ("source", "medium", "campaign")}
    return [node.node_id for node in chain(Traffic(**fields, channel=channel_of(**of_traffic)))]


@pytest.mark.parametrize(
    ("source", "medium", "channel"),
    [
        ("google", "cpc", "Paid Search"),
        ("bing", "ppc", "Paid Search"),
        ("meta", "paid_social", "Paid Social"),
        ("l.facebook.com", "cpc", "Paid Social"),
        ("some-network", "cpc", "Paid Other"),
        ("some-network", "cpm", "Display"),
        ("newsletter", "email", "Email"),
        ("newsletter", "e-mail", "Email"),
        ("partner", "affiliate", "Affiliates"),
        ("google", "organic", "Organic Search"),
        ("t.co", "referral", "Organic Social"),
        ("chatgpt.com", "referral", "AI Assistants"),
        ("forum.example", "referral", "Referral"),
        # A name that only ends like that of a search engine is none.
        ("notgoogle", "cpc", "Paid Other"),
        ("shop", "print", "Unassigned"),
    ],
)
def test_channels(source, medium, channel):
    assert channel_of(source, medium) == channel


def test_chains_have_all_known_levels():
    full = chain(Traffic("google", "cpc", "spring", "17", "shoes", "banner", "boots"))
    assert [(node.kind, node.name) for node in full] == [
        ("integration", "google / cpc"),
        ("campaign", "spring"),
        ("adset", "shoes"),
        ("ad", "banner"),
        ("keyword", "boots"),
    ]
    assert [node.parent_id for node in full[1:]] == [node.node_id for node in full[:-1]]
    assert ids(source="google", medium="cpc", keyword="boots") == ["google/cpc", "google/cpc/boots"]
    assert ids(medium="campaign", campaign="spring") == ["campaign", "campaign/spring"]


def test_placeholders_count_as_missing():
    assert ids() == ids(source="(direct)", medium="(none)") == ids(source="(not set)") == ["direct"]
    assert ids(source="google", medium="organic", campaign="(organic)") == [
        "organic-search",
        "organic-search/google",
    ]


def test_ids_are_distinct():
    assert ids(source="a/b", medium="cpc") != ids(source="a", medium="b/cpc")
    assert ids(source="a%2Fb", medium="cpc") != ids(source="a/b", medium="cpc")
    long, other = ids(source="s" * 200, medium="cpc"), ids(source="s" * 201, medium="cpc")
    assert len(long[0]) == 128
    assert long != other


def test_a_campaign_with_an_organic_medium_is_a_campaign():
    leaf = chain(Traffic("google", "organic", "spring"))[-1]
    assert leaf.node_id == "google/organic/spring"
    assert referrer_type(leaf) == "campaign"


def test_a_tree_has_distinct_nodes_with_the_external_id_of_campaigns():
    chains = [chain(Traffic("google", "cpc", "spring")), chain(Traffic("google", "cpc", "spring", "17"))]
    nodes = tree(chains)
    assert [(node.node_id, node.external_id) for node in nodes] == [
        ("google/cpc", None),
        ("google/cpc/spring", "17"),
    ]
