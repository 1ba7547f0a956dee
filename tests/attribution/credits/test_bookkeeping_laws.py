"""Properties of windows, money and dates, on random journeys, against a simple reference."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.law_examples import examples

from attrib_ds import Paths, attribute, credit_series
from attrib_ds.records.frames import TEXT

# Users who never meet, and orders before all touchpoints, are among what is drawn.
pytestmark = [pytest.mark.filterwarnings(f"ignore:{topic}") for topic in ("users", "clocks", "adjustments")]

START = datetime(2025, 1, 1, tzinfo=UTC)
HALF_DAY = timedelta(hours=12)
LOOKBACKS = {"click": timedelta(days=5), "view": timedelta(days=1)}
OF_NODES = {"c": timedelta(days=8)}
#: By age and by node, and one of whole paths.
MODELS = ["time_decay", "shapley", "fractribution"]

#: Few examples with many users each, because each is computed several times.
few = settings(max_examples=examples(5))
several = settings(few, max_examples=examples(15))

users = st.sampled_from("uvwxyz")
nodes = st.sampled_from(["a", "b", "c"])
types = st.sampled_from(["click", "view"])
# Half days, so that ties and touches at the very bounds of windows are common.
dates = st.integers(0, 24).map(lambda half_days: START + half_days * HALF_DAY)
touches = st.lists(st.tuples(users, nodes, types, dates), max_size=40)
events = st.lists(
    st.tuples(users, st.sampled_from(["lead", "order"]), dates, st.integers(-5, 50)), max_size=15
)
resets = st.sampled_from(["none", "same", "any"])
#: Which event, how many half days after it, how much.
amounts = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 20), st.integers(-50, 50)), max_size=9)


def frames(touched, happened):
    touchpoints = pd.DataFrame(touched, columns=["user_id", "node_id", "type", "date"])
    conversions = pd.DataFrame(happened, columns=["user_id", "kind", "date", "value"])
    conversions.insert(0, "event_id", [f"e{index}" for index in range(len(happened))])
    for frame in (touchpoints, conversions):
        frame["date"] = pd.to_datetime(frame["date"], utc=True)
    return touchpoints, conversions


def paths_of(touched, happened, **options):
    options = {"lookback": LOOKBACKS, "node_lookbacks": OF_NODES, "columns": {"kind": "kind"}} | options
    known = {type_ for _, _, type_, _ in touched}
    if options["lookback"] is LOOKBACKS and known != set(LOOKBACKS):
        # Lookbacks of types that no touchpoint has are refused.
        options["lookback"] = {name: LOOKBACKS[name] for name in known} | {"default": "1D"}
    return Paths.from_frames(*frames(touched, happened), **options)


def adjustments_of(happened, later):
    rows = [
        (f"e{index}", happened[index][2] + after * HALF_DAY, float(amount))
        for index, after, amount in later
        if index < len(happened)
    ]
    frame = pd.DataFrame(rows, columns=["event_id", "date", "value"])
    return frame.assign(date=pd.to_datetime(frame["date"], utc=True), value=frame["value"].astype("float64"))


def expected_path(index, touched, happened, *, reset, precedence):
    user, kind, date, _ = happened[index]
    earlier = [
        other[2]
        for number, other in enumerate(happened)
        if other[0] == user
        and (reset == "any" or (reset == "same" and other[1] == kind))
        # At the same instant ids decide the order, as strings: e10 comes before e2.
        and (other[2], f"e{number}") < (date, f"e{index}")
    ]
    inside = [
        (when, node, type_)
        for touch_user, node, type_, when in touched
        if touch_user == user
        and when <= date < when + OF_NODES.get(node, LOOKBACKS[type_])
        and all(when > each for each in earlier)
    ]
    first = next((name for name in precedence if any(each[2] == name for each in inside)), None)
    return sorted((when, node) for when, node, type_ in inside if first is None or type_ == first)


@pytest.mark.large
@pytest.mark.slow
@several
@given(touches, events, resets, st.sampled_from([(), ("click", "view"), ("view", "click")]))
@example([], [], "any", ())
@example([("u", "a", "view", START)], [("u", "order", START + timedelta(days=1), 1)], "none", ())
@example([("u", "c", "view", START)], [("u", "order", START + timedelta(days=8), 1)], "none", ())
@example(
    [("u", "a", "click", START), ("u", "b", "view", START)],
    [("u", "order", START, 1), ("u", "order", START, 1), ("u", "lead", START, 1)],
    "same",
    ("view", "click"),
)
@example(
    [("u", "a", "click", START)], [("u", "order", START, 1)] * 2 + [("u", "lead", START, 1)] * 9, "same", ()
)
def test_paths_are_those_of_a_plain_account(touched, happened, reset, precedence):
    if {type_ for _, _, type_, _ in touched} != set(LOOKBACKS):
        precedence = ()
    rows = paths_of(touched, happened, reset=reset, precedence=precedence).to_pandas()
    for index in range(len(happened)):
        path = rows[(rows["event_id"] == f"e{index}") & rows["node_id"].notna()]
        expected = expected_path(index, touched, happened, reset=reset, precedence=precedence)
        assert list(zip(path["date"], path["node_id"], strict=True)) == expected
    assert rows["event_id"].nunique() == len(happened)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, events, amounts, resets)
@example([], [("u", "order", START, 0)], [(0, 1, -5)], "none")
@example([("u", "a", "click", START)], [("u", "order", START, 10)], [(0, 0, -10)], "any")
@example([("u", "a", "click", START)], [("u", "order", START, -3), ("u", "order", START, 7)], [], "same")
def test_every_conversion_and_amount_is_credited_once(touched, happened, later, reset):
    paths = paths_of(touched, happened, reset=reset, adjustments=adjustments_of(happened, later))
    worth = sum(each[3] for each in happened) + adjustments_of(happened, later)["value"].sum()
    credits = attribute(paths, [*MODELS, "markov"])
    for _, rows in credits.groupby("model"):
        assert rows["conversions"].sum() == pytest.approx(len(happened))
        assert rows["value"].sum() == pytest.approx(worth, abs=1e-9)
    series = credit_series(paths, MODELS, date="state")
    summed = series.groupby(["model", "node_id"], dropna=False)[["conversions", "value"]].sum().sort_index()
    alike = credits[credits["model"] != "markov"]
    whole = alike.groupby(["model", "node_id"], dropna=False)[["conversions", "value"]].sum().sort_index()
    # A node with credit in no period has no row in the series.
    whole, summed = (each[(each.abs() > 1e-9).any(axis=1)] for each in (whole, summed))
    pd.testing.assert_frame_equal(summed, whole, check_exact=False, rtol=1e-9, atol=1e-9)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, events, amounts)
def test_counts_do_not_depend_on_what_conversions_are_worth(touched, happened, later):
    plain = attribute(paths_of(touched, [(*each[:3], 0) for each in happened]), MODELS)
    paths = paths_of(touched, happened, adjustments=adjustments_of(happened, later))
    credits = attribute(paths, MODELS)
    same = ["model", "node_id", "conversions", "share"]
    pd.testing.assert_frame_equal(credits[same], plain[same], check_exact=False, rtol=1e-12)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, events, amounts)
def test_credit_is_linear_in_what_conversions_are_worth(touched, happened, later):
    paths = paths_of(touched, happened, adjustments=adjustments_of(happened, later))
    net, original, rest = (
        attribute(each, MODELS).set_index(["model", "node_id"])["value"].sort_index()
        for each in (paths, paths.with_original_values(), paths.with_later_values())
    )
    pd.testing.assert_series_equal(net, original + rest, check_exact=False, rtol=1e-9, atol=1e-9)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, events, resets)
@example([("u", "a", "click", START)], [("u", "order", START, 10)], "none")
@example([], [("u", "order", START, 10)], "none")
def test_an_order_and_its_full_refund_are_worth_nothing_to_any_node(touched, happened, reset):
    happened = [(*each[:3], abs(each[3])) for each in happened]
    refunds = adjustments_of(happened, [(index, 3, -each[3]) for index, each in enumerate(happened)])
    paths = paths_of(touched, happened, reset=reset, adjustments=refunds)
    credits = attribute(paths, [*MODELS, "markov"])
    assert credits["value"].tolist() == pytest.approx([0.0] * len(credits))


RATES = pd.DataFrame(
    {
        "currency": ["USD", "USD", "GBP"],
        "date": [START - timedelta(days=1), START + timedelta(days=4), START],
        "rate": [0.9, 0.5, 1.25],
    }
)


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, events, st.lists(st.sampled_from(["EUR", "USD", "GBP"]), min_size=15, max_size=15))
@example([("u", "a", "click", START)], [("u", "order", START + timedelta(days=4), 10)], ["USD"] * 15)
@example([], [("u", "order", START, 10)], ["EUR"] * 15)
def test_converting_before_or_after_crediting_is_the_same(touched, happened, currencies):
    touchpoints, conversions = frames(touched, happened)
    conversions["currency"] = pd.Series(currencies[: len(conversions)], dtype=TEXT)
    before = Paths.from_frames(touchpoints, conversions, lookback="5D", in_currency="EUR", rates=RATES)
    credited = attribute(before, MODELS).groupby(["model", "node_id"], dropna=False)["value"].sum()
    after = credit_series(Paths.from_frames(touchpoints, conversions, lookback="5D"), MODELS)
    worth = []
    for row in after.itertuples():
        known = RATES[(RATES["currency"] == row.currency) & (RATES["date"] <= row.start)]
        worth.append(row.value * (1.0 if row.currency == "EUR" else known["rate"].iloc[-1]))
    later = after.assign(value=worth).groupby(["model", "node_id"], dropna=False)["value"].sum()
    pd.testing.assert_series_equal(
        credited.sort_index(), later.sort_index(), check_exact=False, rtol=1e-9, atol=1e-9, check_dtype=False
    )


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, events, dates, resets)
@example([], [("u", "order", START, 1)], START, "none")
@example([], [("u", "order", START + timedelta(days=5), 1)], START, "none")
def test_only_conversions_within_the_lookback_of_a_late_touchpoint_have_to_be_done_again(
    touched, happened, late, reset
):
    # All touchpoints of the half day "late" arrive after the first run.
    on_time = [touch for touch in touched if touch[3] != late]
    touchpoints, conversions = frames(touched, happened)
    before, _ = frames(on_time, happened)
    options = {"lookback": "5D", "reset": reset, "columns": {"kind": "kind"}}
    models = ["linear", "time_decay", "last_touch"]

    def run(points, chosen):
        rows = credit_series(Paths.from_frames(points, conversions, **options), models)
        # All conversions are read, because they reset each other; those of the days chosen are kept.
        return rows[chosen(rows["start"])]

    changed = pd.Timestamp(late).floor("D")
    until = changed + timedelta(days=1) + timedelta(days=5)
    kept = run(before, lambda since: (since < changed) | (since >= until))
    again = run(touchpoints, lambda since: (since >= changed) & (since < until))
    whole = run(touchpoints, lambda since: since.notna())
    keys = ["model", "start", "node_id"]
    together = pd.concat([kept, again]).sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(together, whole.sort_values(keys, ignore_index=True), check_exact=False)


@pytest.mark.large
@pytest.mark.slow
@several
@given(touches, events, resets)
@example([("u", "a", "click", START)], [("u", "order", START + timedelta(days=3), 1)], "none")
def test_a_longer_lookback_never_takes_a_touchpoint_away(touched, happened, reset):
    def held(length):
        lookback = {"default": length} | dict.fromkeys({each[2] for each in touched}, length)
        paths = paths_of(touched, happened, lookback=lookback, node_lookbacks=None, reset=reset)
        rows = paths.to_pandas()
        return rows[rows["node_id"].notna()].groupby(["event_id", "node_id", "date"]).size().to_dict()

    shorter, longer = held("2D"), held("4D")
    assert all(longer.get(key, 0) >= count for key, count in shorter.items())


@pytest.mark.large
@pytest.mark.slow
@few
@given(touches, events, resets)
def test_a_reset_never_adds_a_touchpoint(touched, happened, reset):
    def lengths(reset):
        rows = paths_of(touched, happened, reset=reset).to_pandas()
        return rows.groupby("event_id")["length"].max()

    assert (lengths(reset) <= lengths("none")).all()
    assert (lengths("any") <= lengths("same")).all()
