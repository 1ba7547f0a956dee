"""Where sessions end: every rule on paper, and the set-based engine beside a sequential reference."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import sequential_sessions

from attrib_ds.service.collection.hits import split_into_sessions
from attrib_ds.traffic import sessions

NOON = datetime(2025, 1, 31, 12)


def hit(minutes, *, node="direct", campaign=False, tracker="t", id=None, stored=None, referrer="direct"):
    return {
        "id": id or f"{tracker}{minutes:09.3f}{node}",
        "trackerId": tracker,
        "serverDate": NOON + timedelta(minutes=minutes),
        "nodeId": node,
        "isBot": False,
        "isCampaign": campaign,
        "referrerType": referrer,
        "row": None,
        "sessionId": stored,
        "formerId": stored,
    }


def split(hits):
    columns = {"serverDate": pa.timestamp("us"), "isBot": pa.bool_(), "isCampaign": pa.bool_()}
    rows = pa.table(
        {name: pa.array([h[name] for h in hits], columns.get(name, pa.string())) for name in hits[0]}
    )
    with duckdb.connect() as connection:
        connection.register("given", rows)
        connection.execute("CREATE TABLE hits AS FROM given")
        split_into_sessions(connection, "hits", into="split_hits")
        pairs = connection.execute(
            "SELECT hit.id, first.id FROM split_hits AS hit JOIN split_hits AS first ON first.hit_number = hit.session"
        ).fetchall()
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def sizes(hits):
    """Return the number of hits of each session, by time."""
    first_hits = split(hits)
    order = [h["id"] for h in sorted(hits, key=lambda h: (h["serverDate"], h["id"]))]
    openings = [id for id in order if first_hits[id] == id]
    return [list(first_hits.values()).count(id) for id in openings]


def test_a_session_ends_after_1800_seconds_without_a_hit():
    just_before = 30 - 1 / 60_000
    assert sizes([hit(0), hit(just_before)]) == [2]
    assert sizes([hit(0), hit(30)]) == [1, 1]
    assert sizes([hit(0), hit(20), hit(49)]) == [3]


def test_another_campaign_opens_a_session_and_the_same_does_not():
    ads, mail = ({"node": node, "campaign": True} for node in ("ads", "mail"))
    assert sizes([hit(0, **ads), hit(1), hit(2, **ads), hit(3)]) == [4]
    assert sizes([hit(0, **ads), hit(1), hit(2, **mail), hit(3), hit(4, **ads)]) == [2, 2, 1]
    assert sizes([hit(0), hit(1, **ads)]) == [1, 1]


def test_another_referrer_opens_no_session():
    assert sizes([hit(0, node="ads", campaign=True), hit(1, node="referral/paypal.com"), hit(2)]) == [3]


def test_midnight_opens_no_session():
    assert sizes([hit(11 * 60 + 55), hit(12 * 60 + 5)]) == [2]


def test_a_session_ends_after_24_hours():
    every_20_minutes = [hit(20 * n) for n in range(100)]
    # 24 hours are 72 steps: the hit at exactly 24 hours opens the next session.
    assert sizes(every_20_minutes) == [72, 28]


def test_a_session_ends_after_10_000_hits():
    hits = [hit(n / 1_000, id=f"{n:05}") for n in range(20_001)]
    assert sizes(hits) == [10_000, 10_000, 1]


def test_trackers_have_their_own_sessions():
    assert sizes([hit(0), hit(1, tracker="u"), hit(29), hit(40, tracker="u")]) == [2, 1, 1]


def test_after_the_limit_the_node_of_the_opening_hit_counts():
    """The campaign of the session before is a change again: the new session opened without it."""
    hits = [hit(0, node="ads", campaign=True), *(hit(20 * n) for n in range(1, 73))]
    assert sizes([*hits, hit(20 * 73, node="ads", campaign=True)]) == [72, 1, 1]


def test_blocks_without_a_new_hit_are_left_out():
    hits = [hit(0, stored="s", id="a"), hit(60, stored="r", id="b"), hit(70, id="c")]
    assert split(hits) == {"b": "b", "c": "b"}


TYPES = ("internal", "search", "direct", "campaign", "referral")
MINUTES = st.one_of(
    st.integers(0, 200),
    st.sampled_from([29.99, 30, 30.01, 59.99, 60]),
    st.integers(0, 72).map(lambda n: n * 20),
)
HITS = st.lists(
    st.tuples(
        MINUTES, st.sampled_from(["direct", "ads", "mail"]), st.booleans(), st.sampled_from(["t", "u"])
    ),
    min_size=1,
    max_size=40,
)


@given(HITS, st.sampled_from([(60, 3), (120, 10_000), (24 * 60, 4), (24 * 60, 10_000), (30, 1)]))
@settings(max_examples=60)
@example([(n, node, True, "t") for n, node in enumerate("abba" * 3)], (60, 3))
@example([(n, "direct", False, "t") for n in range(12)] + [(13, "ads", True, "t")], (5, 10_000))
@pytest.mark.large
@pytest.mark.slow
def test_the_engine_agrees_with_the_sequential_reference(rows, limits):
    """With low limits the recursion is taken in most draws."""
    viewed = [
        hit(minutes, node=node, campaign=is_campaign, tracker=tracker, id=f"{n:03}", referrer=TYPES[n % 5])
        for n, (minutes, node, is_campaign, tracker) in enumerate(rows)
    ]
    longest, most = limits
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "LONGEST", longest * 60_000)
        patch.setattr(sessions, "MOST_HITS", most)
        patch.setattr(sequential_sessions, "LONGEST", timedelta(minutes=longest))
        patch.setattr(sequential_sessions, "MOST_HITS", most)
        assert split(viewed) == sequential_sessions.split(viewed)
