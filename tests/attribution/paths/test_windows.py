"""Lookback windows: by type and node, precedence, resets and anchors."""

from datetime import timedelta

import pandas as pd
import pytest

from attrib_ds import Paths, attribute, errors


def days(*dates):
    return pd.to_datetime([f"2025-01-{date}" for date in dates], utc=True, format="ISO8601")


#: A view and a click of one user long before, then shortly before, a conversion a microsecond into the 31st:
#: conversions at midnight would be days.
TOUCHPOINTS = pd.DataFrame(
    {
        "user_id": "u",
        "node_id": ["old view", "old click", "view", "click"],
        "type": ["view", "click", "view", "click"],
        "date": days("02", "03", "30T12:00", "29"),
    }
)
CONVERSIONS = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": days("31T00:00:00.000001")})


def nodes(touchpoints=TOUCHPOINTS, conversions=CONVERSIONS, **options):
    rows = Paths.from_frames(touchpoints, conversions, **options).to_pandas()
    return [None if pd.isna(each) else each for each in rows["node_id"]]


def test_each_type_has_a_lookback_of_its_own():
    assert nodes(lookback={"click": "30D", "view": "1D"}) == ["old click", "click", "view"]
    assert nodes(lookback={"click": "1D", "view": "30D"}) == ["old view", "view"]
    assert nodes(lookback={"default": "30D", "view": timedelta(hours=13)}) == ["old click", "click", "view"]
    assert nodes(lookback={"default": "30D"}) == nodes(lookback="30D")


def test_windows_of_types_are_open_at_their_start_and_closed_at_the_conversion():
    touchpoints = TOUCHPOINTS.assign(
        date=days(*["30T00:00:00.000001"] * 2, "30T00:00:00.000002", "31T00:00:00.000001")
    )
    assert nodes(touchpoints, lookback={"click": "1D", "view": "1D"}) == ["view", "click"]
    assert nodes(touchpoints, lookback={"click": "2D", "view": "1D"}) == ["old click", "view", "click"]


def test_the_lookback_of_a_node_takes_precedence_over_its_type():
    options = {
        "lookback": {"click": "30D", "view": "1D"},
        "node_lookbacks": {"old view": "30D", "click": "1h"},
    }
    assert nodes(**options) == ["old view", "old click", "view"]
    # Also with one lookback for all types, and regardless of which is the longest.
    assert nodes(lookback="1D", node_lookbacks={"old view": "40D"}) == ["old view", "view"]


@pytest.mark.large
@pytest.mark.slow
def test_a_click_takes_precedence_over_views_of_its_window_only():
    clicks_first = {"precedence": ("click", "view")}
    assert nodes(**clicks_first) == ["old click", "click"]
    assert nodes(precedence=["view", "click"]) == ["old view", "view"]
    # No click is within a day, so the view stays; without precedence all stay.
    assert nodes(lookback="1D", **clicks_first) == ["view"]
    assert nodes() == ["old view", "old click", "click", "view"]
    with_visit = TOUCHPOINTS.assign(type=["view", "click", "visit", "click"])
    assert nodes(with_visit, **clicks_first) == ["old click", "click", "view"]


def test_positions_are_counted_after_precedence():
    rows = Paths.from_frames(TOUCHPOINTS, CONVERSIONS, precedence=("click", "view")).to_pandas()
    assert rows[["position", "length"]].to_numpy().tolist() == [[1, 2], [2, 2]]
    nothing = Paths.from_frames(TOUCHPOINTS.iloc[:0], CONVERSIONS, precedence=("click", "view")).to_pandas()
    assert nothing["length"].tolist() == [0]


SEVERAL = pd.DataFrame(
    {
        "event_id": ["lead", "first", "second", "other"],
        "user_id": ["u", "u", "u", "v"],
        "kind": ["lead", "order", "order", "order"],
        "date": days("04", "06", "08", "08"),
    }
)
VISITS = pd.DataFrame(
    {
        "user_id": ["u", "u", "u", "u", "v"],
        "node_id": ["a", "b", "c", "d", "e"],
        "date": days("03", "05", "06", "07", "01"),
    }
)


def paths_of_events(**options):
    rows = Paths.from_frames(VISITS, SEVERAL, **options).to_pandas()
    return rows.groupby("event_id")["node_id"].agg("".join).to_dict()


def test_without_a_reset_every_conversion_has_its_whole_window():
    assert paths_of_events() == {"lead": "a", "first": "abc", "second": "abcd", "other": "e"}


def test_conversions_of_the_same_kind_reset_each_other():
    same = {"lead": "a", "first": "abc", "second": "d", "other": "e"}
    assert paths_of_events(reset="same", columns={"kind": "kind"}) == same


def test_any_conversion_of_the_user_resets():
    # A touchpoint at the instant of a conversion belongs to it.
    reset = {"lead": "a", "first": "bc", "second": "d", "other": "e"}
    assert paths_of_events(reset="any", columns={"kind": "kind"}) == reset
    # Without a column for kinds, all conversions are of one kind.
    assert paths_of_events(reset="same") == reset


@pytest.mark.parametrize("step", [1, -1])
def test_simultaneous_conversions_are_ordered_by_id(step):
    both = SEVERAL.assign(date=days("04", "08", "08", "08"))[::step]
    rows = Paths.from_frames(VISITS, both, reset="any").to_pandas()
    assert rows[rows["event_id"] == "first"]["node_id"].tolist() == ["b", "c", "d"]
    assert rows[rows["event_id"] == "second"]["length"].tolist() == [0]


def test_a_reset_never_lengthens_a_window():
    paths = Paths.from_frames(VISITS, SEVERAL, reset="any", lookback="1D").to_pandas()
    assert paths.groupby("event_id")["length"].max().to_dict() == {
        "lead": 0,
        "first": 1,
        "second": 0,
        "other": 0,
    }


QUALIFIED = CONVERSIONS.assign(date=days("10"), qualified=days("20"))
NURTURED = pd.DataFrame({"user_id": "u", "node_id": ["ad", "call"], "date": days("05", "15")})


def test_windows_end_at_the_event_or_at_its_state():
    assert nodes(NURTURED, QUALIFIED, columns={"state": "qualified"}) == ["ad"]
    assert nodes(NURTURED, QUALIFIED, columns={"state": "qualified"}, anchor="state") == ["ad", "call"]
    assert nodes(NURTURED, QUALIFIED, columns={"state": "qualified"}, anchor="state", lookback="15D") == [
        "call"
    ]


def test_dates_of_milestones_that_a_conversion_has_not_reached_are_missing():
    two = pd.concat([QUALIFIED, QUALIFIED.assign(event_id="f", qualified=pd.NaT)])
    paths = Paths.from_frames(NURTURED, two, columns={"milestone.lead": "qualified"})
    assert paths.milestones() == ["lead"]
    touches = paths.touches.to_pyarrow().select(["event_id", "milestone.lead"]).to_pylist()
    assert {row["event_id"] for row in touches if row["milestone.lead"]} == set(QUALIFIED["event_id"])
    assert {row["event_id"] for row in touches} == {"f", *QUALIFIED["event_id"]}


def test_conversions_without_the_state_are_left_out():
    two = pd.concat([QUALIFIED, QUALIFIED.assign(event_id="f", qualified=pd.NaT)])
    assert (
        attribute(Paths.from_frames(NURTURED, two, columns={"state": "qualified"}), "linear")[
            "conversions"
        ].sum()
        == 1
    )
    assert attribute(Paths.from_frames(NURTURED, two), "linear")["conversions"].sum() == 2


def test_another_lookback_of_the_same_paths():
    paths = Paths.from_frames(TOUCHPOINTS, CONVERSIONS, precedence=("click", "view"))
    shorter = paths.with_lookback({"click": "1D", "view": "1D"})
    assert shorter.to_pandas()["node_id"].tolist() == ["view"]
    assert (shorter.settings["lookback"], shorter.settings["precedence"]) == (
        "click: 1D, view: 1D",
        "click > view",
    )
    assert paths.to_pandas()["node_id"].tolist() == ["old click", "click"]
    # Other settings stay: clicks take precedence in longer windows too.
    assert shorter.with_lookback("30D").to_pandas()["node_id"].tolist() == ["old click", "click"]
    aggregated = Paths.from_sequences(pd.DataFrame({"path": ["a"], "n": [1]}), path="path", conversions="n")
    with pytest.raises(errors.InvalidRequest, match="their lookback cannot change"):
        aggregated.with_lookback("1D")
    with pytest.raises(errors.InvalidRequest, match="'clik' is not allowed.*did you mean 'click'"):
        paths.with_lookback({"clik": "1D", "default": "1D"})


def test_credits_say_how_they_were_made():
    options = {
        "lookback": {"default": "30D", "view": "36h"},
        "reset": "same",
        "precedence": ("click", "view"),
    }
    paths = Paths.from_frames(TOUCHPOINTS, CONVERSIONS, **options)
    told = {
        "lookback": "30D, view: 36h",
        "anchor": "event",
        "reset": "same",
        "precedence": "click > view",
    }
    assert dict(paths.settings) == told
    assert "lookback 30D, view: 36h, anchor event, reset same, precedence click > view" in repr(paths)
    credits = attribute(paths, ["linear", "time_decay"])
    models = {"linear": "Linear()", "time_decay": "TimeDecay(half_life='7D', step=None)"}
    assert credits.attrs == {"models": models, **told}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lookback": {}}, "lookback: it is empty"),
        (
            {"lookback": {"click": "30D"}},
            "lookback: touchpoints of the type view have no lookback.*'default'",
        ),
        ({"lookback": {"click": "30D", "view": "-1D"}}, "lookback: '-1D' is not positive"),
        ({"lookback": {"clik": "1D", "default": "1D"}}, "lookback: 'clik' is not allowed.*'click'"),
        ({"node_lookbacks": {"click": "soon"}}, "node_lookbacks: 'soon' is not a length of time"),
        ({"precedence": "click"}, "precedence: 'click' is not allowed; allowed: two or more types"),
        ({"precedence": ["click"]}, "precedence: .*two or more types"),
        ({"precedence": ["click", "click"]}, "precedence: .*two or more types"),
        ({"precedence": ["click", "vew"]}, "precedence: 'vew' is not allowed.*'view'"),
        ({"reset": "all"}, "reset: 'all' is not allowed.*any, none, same"),
        ({"anchor": "touch"}, "anchor: 'touch' is not allowed.*event, state"),
        ({"anchor": "state"}, "anchor: 'state' requires a column with dates of the state"),
        ({"columns": {"state": "won"}}, "there is no column 'won' for the state"),
        ({"columns": {"kind": "sort"}}, "there is no column 'sort' for the kind.*columns={'kind': '…'}"),
        ({"columns": {"type": "sort"}}, "there is no column 'sort' for the type"),
        ({"columns": {"user": "id"}}, "columns: 'user' is not allowed"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        Paths.from_frames(TOUCHPOINTS, CONVERSIONS, **options)


def test_types_cannot_be_named_if_touchpoints_have_none():
    untyped = TOUCHPOINTS.drop(columns="type")
    for options in ({"lookback": {"click": "1D", "default": "9D"}}, {"precedence": ("click", "view")}):
        with pytest.raises(
            errors.InvalidRequest, match="'click'.*touchpoints have no types.*columns={'type'"
        ):
            Paths.from_frames(untyped, CONVERSIONS, **options)


def test_touchpoints_without_a_type_need_a_lookback_for_others():
    untyped = TOUCHPOINTS.assign(type=["view", None, "view", "click"])
    with pytest.raises(errors.InvalidRequest, match="touchpoints of the type None have no lookback"):
        Paths.from_frames(untyped, CONVERSIONS, lookback={"click": "30D", "view": "1D"})
    assert nodes(untyped, lookback={"click": "1D", "default": "30D"}) == ["old view", "old click", "view"]
