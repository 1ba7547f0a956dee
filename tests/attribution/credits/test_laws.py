"""Properties of attribution, on random journeys."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.law_examples import examples
from support.reference_attribution import credits as reference_credits

from attrib_ds import Paths, attribute
from attrib_ds.attribution.models import LastTouch, Linear, PositionBased, TimeDecay, rule_models

# Small data are odd: users who never meet, orders before all touchpoints, lookbacks that cut nothing.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{word}:attrib_ds.errors.InputWarning")
    for word in ("lookback", "users", "clocks")
]
START = datetime(2025, 1, 1, tzinfo=UTC)
LOOKBACK = timedelta(days=5)
RULES = list(rule_models())
#: One of each kind: by position, by age, by node, and one that does not add up to one.
KINDS = ["last_non_direct", "time_decay", "position_based", "participation"]
NORMALISED = [rule for rule in RULES if rule != "participation"]

few = settings(max_examples=examples(15))

users = st.sampled_from(["u", "v", "w"])
nodes = st.sampled_from(["a", "b", "direct"])
# Half days, so that ties of time and touches at the very bounds of the window are common.
dates = st.integers(0, 24).map(lambda half_days: START + timedelta(hours=12 * half_days))
touches = st.lists(st.tuples(users, nodes, dates), max_size=12)
conversions = st.lists(st.tuples(users, dates, st.integers(-50, 50)), max_size=5).map(
    lambda rows: [(f"e{index}", *row) for index, row in enumerate(rows)]
)


def paths_of(touched, converted, lookback=LOOKBACK):
    touchpoints = pd.DataFrame(touched, columns=["user_id", "node_id", "date"])
    events = pd.DataFrame(converted, columns=["event_id", "user_id", "date", "value"])
    for frame in (touchpoints, events):
        frame["date"] = pd.to_datetime(frame["date"], utc=True)
    return Paths.from_frames(touchpoints, events, lookback=lookback)


def table_of(credits, rule):
    rows = credits[credits["model"] == rule]
    ids = [None if pd.isna(node) else node for node in rows["node_id"]]
    return dict(zip(ids, zip(rows["conversions"], rows["value"], strict=True), strict=True))


def same(left, right):
    assert left.keys() == right.keys()
    for node, expected in right.items():
        assert left[node] == pytest.approx(expected, abs=1e-9)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, conversions)
@example([], [])
@example([("u", "a", START)], [("e0", "u", START, 0)])
@example([("u", "a", START)], [("e0", "u", START + LOOKBACK, 1)])
@example([("u", "direct", START), ("u", "direct", START)], [("e0", "u", START, 5), ("e1", "u", START, 5)])
def test_every_rule_equals_its_formula_and_conserves(touched, converted):
    credits = attribute(paths_of(touched, converted), RULES)
    for rule in RULES:
        table = table_of(credits, rule)
        expected = reference_credits(rule, touched, converted, LOOKBACK)
        positive = {node: each for node, each in table.items() if node in expected}
        same(positive, expected)
        assert all(table[node] == (0, 0) for node in table.keys() - expected.keys())
        if rule in NORMALISED and converted:
            assert sum(count for count, _ in table.values()) == pytest.approx(len(converted), rel=1e-9)
            worth = sum(row[3] for row in converted)
            assert sum(value for _, value in table.values()) == pytest.approx(worth, abs=1e-7)
            assert credits.loc[credits["model"] == rule, "share"].sum() == pytest.approx(1, rel=1e-9)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, conversions, st.randoms(use_true_random=False))
def test_order_of_rows_and_names_of_users_change_nothing(touched, converted, random):
    expected = attribute(paths_of(touched, converted), KINDS)
    renamed = {"u": "zoë", "v": "' OR 1=1 --", "w": "1"}
    shuffled = [(renamed[user], *rest) for user, *rest in touched]
    events = [(event, renamed[user], *rest) for event, user, *rest in converted]
    random.shuffle(shuffled)
    random.shuffle(events)
    credits = attribute(paths_of(shuffled, events), KINDS)
    for rule in KINDS:
        same(table_of(credits, rule), table_of(expected, rule))


@pytest.mark.large
@pytest.mark.slow
@few
@given(st.lists(st.tuples(users, nodes), max_size=12), conversions)
def test_renaming_nodes_renames_the_credits(touched, converted):
    # Touches at distinct instants, because names break ties.
    apart = [(user, node, START + timedelta(hours=17 * index)) for index, (user, node) in enumerate(touched)]
    renamed = {"a": "x > y", "b": "ünï'\"; DROP", "direct": "12"}
    rules = KINDS[1:]
    expected = attribute(paths_of(apart, converted), rules)
    credits = attribute(
        paths_of([(user, renamed[node], date) for user, node, date in apart], converted), rules
    )
    for rule in rules:
        same(
            table_of(credits, rule),
            {renamed.get(node): each for node, each in table_of(expected, rule).items()},
        )


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, conversions)
def test_duplicating_all_users_doubles_totals_and_leaves_shares(touched, converted):
    twice = touched + [(f"{user}2", node, date) for user, node, date in touched]
    events = converted + [(f"{event}2", f"{user}2", date, value) for event, user, date, value in converted]
    once, doubled = (attribute(paths_of(*rows), KINDS) for rows in ((touched, converted), (twice, events)))
    assert doubled["conversions"].tolist() == pytest.approx((2 * once["conversions"]).tolist(), abs=1e-9)
    assert doubled["share"].tolist() == pytest.approx(once["share"].tolist(), abs=1e-9)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, conversions, st.sampled_from([-3.0, 0.0, 0.5, 10.0]))
def test_scaling_the_value_scales_its_credit_and_no_count(touched, converted, factor):
    scaled = [(event, user, date, value * factor) for event, user, date, value in converted]
    once, times = (attribute(paths_of(touched, rows), KINDS) for rows in (converted, scaled))
    assert times["value"].tolist() == pytest.approx((factor * once["value"]).tolist(), abs=1e-9)
    assert times["conversions"].tolist() == pytest.approx(once["conversions"].tolist(), rel=1e-12)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, conversions)
def test_touches_after_the_conversion_or_before_the_window_change_nothing(touched, converted):
    last = max([date for _, _, date, _ in converted], default=START)
    first = min([date for _, _, date, _ in converted], default=START)
    far = [(user, "late", last + timedelta(seconds=1)) for user in "uvw"]
    old = [(user, "old", first - LOOKBACK) for user in "uvw"]
    expected = attribute(paths_of(touched, converted), KINDS)
    credits = attribute(paths_of(touched + far + old, converted), KINDS)
    pd.testing.assert_frame_equal(credits, expected, check_exact=False, atol=1e-9)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, conversions)
def test_limits_of_the_parameters(touched, converted):
    models = {
        "slow": TimeDecay("100000D"),
        "linear": Linear(),
        "fast": TimeDecay("1us"),
        "one-sided": PositionBased(0.0, 1.0),
        "last": LastTouch(),
    }
    # Distinct instants: an infinitely fast decay cannot tell touches of one instant apart.
    apart = [
        (user, node, date + timedelta(seconds=index)) for index, (user, node, date) in enumerate(touched)
    ]
    credits = attribute(paths_of(apart, converted), models)
    tables = {label: table_of(credits, label) for label in models}
    for label, limit in (("slow", "linear"), ("fast", "last"), ("one-sided", "last")):
        for node, (count, _) in tables[limit].items():
            assert tables[label][node][0] == pytest.approx(count, abs=1e-3)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, conversions)
def test_a_longer_lookback_never_leaves_more_unattributed(touched, converted):
    def unattributed(days):
        credits = attribute(paths_of(touched, converted, timedelta(days=days)), "linear")
        return credits.loc[credits["node_id"].isna(), "conversions"].sum()

    counts = [unattributed(days) for days in (1, 3, 30)]
    assert counts == sorted(counts, reverse=True)
