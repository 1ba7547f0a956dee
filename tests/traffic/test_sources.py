"""Where visits came from, as chains of nodes."""

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import attrib_ds as at
from attrib_ds.traffic.sources import Traffic, chain, referrer_type, tree


def channel_of(source=None, medium=None, campaign=None):
    frame = pd.DataFrame({"source": [source], "medium": [medium], "campaign": [campaign]})
    return at.hits.assign_channels(frame).item()


def ids(**fields):
    of_traffic = {name: fields.get(name) for name in ("source", "medium", "campaign")}
    return [node.node_id for node in chain(Traffic(**fields, channel=channel_of(**of_traffic)))]


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
    assert [node.node_id for node in full] == [
        "google/cpc",
        "google/cpc/spring",
        "google/cpc/spring/shoes",
        "google/cpc/spring/shoes/banner",
        "google/cpc/spring/shoes/banner/boots",
    ]


def test_a_missing_level_has_its_place_in_the_id():
    assert ids(source="google", medium="cpc", keyword="boots") == ["google/cpc", "google/cpc////boots"]
    assert ids(source="google", campaign="cpc") == ["google", "google//cpc"]
    assert ids(medium="email", campaign="spring") == ["(not set)/email", "(not set)/email/spring"]
    assert ids(campaign="spring") == ["(not set)", "(not set)//spring"]


def test_a_source_with_the_name_of_a_root_is_another_root():
    assert ids(source="organic-search", medium="google") == ["%6Frganic-search/google"]
    assert ids(source="direct", campaign="spring") == ["%64irect", "%64irect//spring"]


NAMES = st.sampled_from(
    [
        "google",
        "cpc",
        "direct",
        "organic-search",
        "referral",
        "%6Frganic-search",
        "(not set)",
        "%",
        "/",
        "a/b",
        "",
        None,
    ]
) | st.text(max_size=3)
NAMES |= st.builds(("s" * 100 + "{}").format, st.text(st.sampled_from("~0aet/%"), max_size=40))
VISITS = st.builds(
    Traffic,
    source=NAMES,
    medium=NAMES,
    campaign=NAMES,
    adset=NAMES,
    ad=NAMES,
    keyword=NAMES,
    channel=st.sampled_from(["Organic Search", "Referral", None]),
)


def described(nodes):
    """Return the kind of each node and the names on the way to it, which its id stands for."""
    root = nodes[0]
    start = (root.source, root.medium) if root.kind == "integration" else (root.name,)
    path = [(root.kind, *start)]
    for node in nodes[1:]:
        path.append((*path[-1], node.kind, node.name))
    return dict(zip(path, (node.node_id for node in nodes), strict=True))


@given(st.lists(VISITS, max_size=8))
@settings(max_examples=100)
@example([Traffic("organic-search", "google"), Traffic("google", channel="Organic Search")])
@example([Traffic("google", "cpc"), Traffic("google", None, "cpc")])
@example([Traffic("google", "cpc", "cpc", ad="x"), Traffic("google", "cpc", "cpc", keyword="x")])
@example([Traffic("google", "cpc", keyword="x"), Traffic("google", "cpc", "x")])
@example([Traffic("email"), Traffic(None, "email")])
@example([Traffic("direct", None, "x"), Traffic("direct")])
# The id of a long name is short, and a name may be that id.
@example([Traffic("s" * 200), Traffic(chain(Traffic("s" * 200))[0].node_id)])
def test_nodes_that_differ_have_different_ids(visits):
    """In their kind or any name on the way from the root, whatever a visitor puts into the URL."""
    nodes = {path: node_id for visit in visits for path, node_id in described(chain(visit)).items()}
    assert len(set(nodes.values())) == len(nodes)
    assert all(len(node_id) <= 128 for node_id in nodes.values())


def test_placeholders_count_as_missing():
    assert ids() == ids(source="(direct)", medium="(none)") == ids(source="(not set)") == ["direct"]
    assert ids(source="google", medium="organic", campaign="(organic)") == [
        "organic-search",
        "organic-search/google",
    ]


@pytest.mark.large
@pytest.mark.slow
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


def test_visits_from_shops_and_video_sites_are_referrals():
    for channel in ["Organic Shopping", "Organic Video", "Referral"]:
        leaf = chain(Traffic("site.example", "referral", channel=channel))[-1]
        assert referrer_type(leaf) == "referral", channel


def test_a_tree_has_distinct_nodes_with_the_external_id_of_campaigns():
    chains = [chain(Traffic("google", "cpc", "spring")), chain(Traffic("google", "cpc", "spring", "17"))]
    nodes = tree(chains)
    assert [(node.node_id, node.external_id) for node in nodes] == [
        ("google/cpc", None),
        ("google/cpc/spring", "17"),
    ]
