"""Conversions in groups: of new and returning customers, and of users or conversions with a property."""

import pandas as pd
import pytest

from attrib_ds import Paths, attribute, errors, plots


def instants(*dates):
    return pd.to_datetime([f"2025-{date}" for date in dates], utc=True)


TOUCHPOINTS = pd.DataFrame(
    {
        "user_id": ["u", "u", "v", "w"],
        "node_id": ["search", "email", "search", "radio"],
        "date": instants("01-01", "02-01", "02-02", "02-03"),
    }
)
#: u orders three times, v once and a visitor of no visits once; w never does.
ORDERS = pd.DataFrame(
    {
        "event_id": ["b", "a", "c", "d", "e"],
        "user_id": ["u", "u", "v", "u", "x"],
        "date": instants("01-02", "02-02", "02-03", "02-04", "02-05"),
    }
)


def events(groups):
    return {name: sorted(paths.to_pandas()["event_id"].unique()) for name, paths in groups.items()}


def test_customers_are_new_with_their_first_conversion():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS)
    assert events(paths.split("customer")) == {"new": ["b", "c", "e"], "returning": ["a", "d"]}
    # Those before the period count as conversions before.
    since = paths.split("customer", since="2025-02-01")
    assert events(since) == {"new": ["c", "e"], "returning": ["a", "d"]}
    credits = attribute(since["returning"], "last_touch")
    assert credits.set_index("node_id")["conversions"].to_dict() == {"email": 2.0}
    # A period alone knows less.
    alone = Paths.from_frames(TOUCHPOINTS, ORDERS[ORDERS["date"] >= "2025-02-01"])
    assert events(alone.split("customer")) == {"new": ["a", "c", "e"], "returning": ["d"]}


def test_users_of_another_group_are_no_null_paths():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS)
    # Only w has touchpoints and never converts.
    for group in paths.split("customer").values():
        touchpoints = group.touchpoints.anti_join(group.converted, "user_id")
        assert touchpoints.user_id.to_pyarrow().to_pylist() == ["w"]


def test_groups_by_a_property_of_users_or_conversions():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS)
    countries = pd.DataFrame({"user_id": ["u", "v", "w"], "country": ["FR", "DE", "DE"]})
    by_country = paths.split(countries)
    # x has no country.
    assert events(by_country) == {"(no country)": ["e"], "DE": ["c"], "FR": ["a", "b", "d"]}
    assert by_country["DE"].settings["country"] == "DE"
    assert set(by_country["FR"].touchpoints.user_id.to_pyarrow().to_pylist()) == {"u"}
    devices = pd.DataFrame({"event_id": ["a", "b", "c"], "device": ["phone", "phone", None]})
    assert events(paths.split(devices)) == {"(no device)": ["c", "d", "e"], "phone": ["a", "b"]}
    with pytest.raises(errors.InvalidRequest, match="by: no user_id of the frame belongs to a conversion"):
        paths.split(countries.assign(user_id=["U", "V", "W"]))
    for wrong in (countries[["country"]], devices.assign(user_id="u"), pd.concat([countries, countries])):
        with pytest.raises(errors.InvalidRequest, match="by: has the columns.*'event_id' or 'user_id'"):
            paths.split(wrong)
    with pytest.raises(errors.InvalidRequest, match="by: 'country' is not allowed.*customer"):
        paths.split("country")
    with pytest.raises(errors.InvalidRequest, match="for other groups, such as cohorts, pass a frame"):
        paths.split("cohort")
    sequences = Paths.from_sequences(pd.DataFrame({"path": ["a"], "n": [1]}), path="path", conversions="n")
    with pytest.raises(errors.InvalidRequest, match="groups of conversions needs the dates"):
        sequences.split("customer")


def test_groups_have_ids_of_any_type_in_a_column_or_the_index():
    paths = Paths.from_frames(
        TOUCHPOINTS.assign(user_id=[1, 1, 2, 3]), ORDERS.assign(user_id=[1, 1, 2, 1, 4])
    )
    tiers = pd.DataFrame({"user_id": [1.0, 2.0, None], "tier": ["gold", "new", "old"]})
    expected = {"(no tier)": ["e"], "gold": ["a", "b", "d"], "new": ["c"]}
    with_index = tiers.set_index("user_id")
    for by in (tiers, with_index, with_index["tier"], tiers.assign(user_id=["1", "2", None])):
        assert events(paths.split(by)) == expected
    with pytest.raises(errors.InvalidRequest, match=r"by: 'user_id' holds floats above 2\^53"):
        paths.split(tiers.assign(user_id=[2.0**60, 1.0, 2.0]))


def test_a_group_with_the_name_of_those_without_one_is_refused():
    tiers = pd.DataFrame({"user_id": ["u"], "tier": ["(no tier)"]})
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS)
    with pytest.raises(errors.InvalidRequest, match=r"by: a group is named '\(no tier\)'.*rename it"):
        paths.split(tiers)
    everyone = pd.DataFrame({"user_id": ["u", "v", "x"], "tier": ["(no tier)", "a", "a"]})
    assert events(paths.split(everyone)) == {"(no tier)": ["a", "b", "d"], "a": ["c", "e"]}


def test_a_series_in_place_of_a_frame_is_refused_in_plain_words():
    paths = Paths.from_frames(TOUCHPOINTS, ORDERS)
    with pytest.raises(
        errors.InvalidRequest, match=r"spend: must be a DataFrame, got Series.*; pass its to_frame"
    ):
        attribute(paths, "linear", spend=ORDERS["user_id"])


def test_groups_have_no_returns_unless_they_get_a_spend_of_their_own():
    spend = pd.DataFrame({"node_id": ["email"], "spend": [9.0], "currency": ["EUR"]})
    group = Paths.from_frames(TOUCHPOINTS, ORDERS).with_spend(spend).split("customer")["returning"]
    credits = attribute(group, "last_touch")
    assert credits[["spend", "cpa"]].isna().all(axis=None)
    assert credits.attrs["spend"] == "that of all groups, so unknown for this one"
    with pytest.raises(errors.InvalidRequest, match="no spend of a node.*groups of a split"):
        plots.returns(credits)
    # Two conversions for the 3 EUR that were spent on those who return.
    own = attribute(group, "last_touch", spend=spend.assign(spend=3.0)).set_index("node_id")
    assert own.loc["email", ["spend", "cpa"]].tolist() == [3.0, 1.5]
    assert "spend" not in own.attrs


def test_a_lookback_that_cuts_off_what_led_to_a_tenth_of_the_conversions_warns():
    users = [f"u{number}" for number in range(100)]
    touchpoints = pd.DataFrame({"user_id": users, "node_id": "fair", "date": instants("01-01")[0]})
    deals = pd.DataFrame({"event_id": users, "user_id": users, "date": instants("01-20")[0]})
    deals.loc[:19, "date"] = instants("05-01")[0]
    with pytest.warns(
        errors.InputWarning,
        match="lookback: 20 of 100 conversions had touchpoints before the lookback of 30D",
    ):
        attribute(Paths.from_frames(touchpoints, deals), "linear")
    attribute(Paths.from_frames(touchpoints, deals, lookback="180D"), "linear")
    # Fewer may have come back for other reasons, unless they are half of few.
    deals.loc[0, "date"] = instants("01-20")[0]
    attribute(Paths.from_frames(touchpoints, deals), "linear")
    with pytest.warns(errors.InputWarning, match="lookback: 2 of 4 conversions"):
        attribute(Paths.from_frames(touchpoints, deals.iloc[18:22]), "linear")
    # A lookback that somebody chose cuts off no less.
    with pytest.warns(errors.InputWarning, match="lookback: 1 of 1 conversion had touchpoints before.*of 7D"):
        attribute(Paths.from_frames(touchpoints, deals.iloc[21:22], lookback="7D"), "linear")
