"""Paths: construction, summaries and invalid input."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.dtype_names import dtype_names

from attrib_ds import (
    Paths,
    attribute,
    compare_lookbacks,
    compare_orders,
    errors,
    explain,
    read_journeys,
    removal_effects,
    touch_credits,
    transition_matrix,
)

TOUCHPOINTS = pd.DataFrame(
    {
        "user_id": ["u", "u", "v"],
        "node_id": ["search", "email", "social"],
        "date": pd.to_datetime(["2025-01-01", "2025-01-03", "2025-01-02"], utc=True),
    }
)
CONVERSIONS = pd.DataFrame(
    {
        "event_id": ["e", "f"],
        "user_id": ["u", "w"],
        "date": pd.to_datetime(["2025-01-05", "2025-01-05T06:00"], utc=True, format="ISO8601"),
        "value": [30.0, 12.0],
        "currency": ["EUR", "EUR"],
    }
)


@pytest.mark.parametrize("zone", ["UTC", None])
def test_midnights_with_a_zone_are_instants_and_midnights_without_one_are_days(zone):
    clicks = pd.DataFrame(
        {"user_id": ["u"], "node_id": ["ads"], "date": pd.to_datetime(["2025-01-02T10:00Z"])}
    )
    days = pd.Series(pd.to_datetime(["2025-01-02", "2025-01-03"])).dt.tz_localize(zone)
    orders = pd.DataFrame({"event_id": ["e", "f"], "user_id": ["u", "v"], "date": days})
    paths = Paths.from_frames(clicks, orders)
    assert paths.to_pandas()["node_id"].dropna().tolist() == ([] if zone else ["ads"])


def test_a_node_opens_assists_and_closes_conversions():
    rows = Paths.from_frames(TOUCHPOINTS, CONVERSIONS).roles()
    assert rows.to_dict("split", index=False) == {
        "columns": ["node_id", "node_name", "touched", "opens", "assists", "closes", "alone"],
        "data": [
            ["email", "email", 1.0, 0.0, 0.0, 1.0, 0.0],
            ["search", "search", 1.0, 1.0, 0.0, 0.0, 0.0],
        ],
    }


def test_a_node_is_alone_where_its_path_has_no_other_node():
    """Two paths of seo > seo and one of seo: 3 conversions without another node."""
    rows = pd.DataFrame({"path": ["seo > seo", "seo", "seo > ads"], "conversions": [2, 1, 4]})
    roles = Paths.from_sequences(rows, path="path", conversions="conversions").roles()
    assert roles.set_index("node_id")["alone"].to_dict() == {"seo": 3.0, "ads": 0.0}


def test_one_row_per_touchpoint_in_order():
    frame = Paths.from_frames(TOUCHPOINTS, CONVERSIONS).to_pandas()
    shown = frame[["event_id", "user_id", "node_id", "position", "length", "conversions", "value"]]
    assert shown.astype(object).where(shown.notna(), None).to_numpy().tolist() == [
        ["e", "u", "search", 1, 2, 1.0, 30.0],
        ["e", "u", "email", 2, 2, 1.0, 30.0],
        ["f", "w", None, 0, 0, 1.0, 12.0],
    ]
    assert dtype_names(frame) == {
        "event_id": "str",
        "user_id": "str",
        "node_id": "str",
        "node_name": "str",
        "date": "datetime64[us, UTC]",
        "event_date": "datetime64[us, UTC]",
        "position": "Int64",
        "length": "Int64",
        "conversions": "float64",
        "value": "float64",
        "currency": "str",
    }


def test_summary_lengths_and_lags():
    paths = Paths.from_frames(TOUCHPOINTS, CONVERSIONS)
    assert paths.summary()[["path", "conversions", "value"]].to_numpy().tolist() == [
        ["", 1.0, 12.0],
        ["search > email", 1.0, 30.0],
    ]
    assert paths.summary(top=1)["path"].tolist() == [""]
    assert paths.lengths().to_numpy().tolist() == [[0, 1.0], [2, 1.0]]
    lags = paths.lags().set_index("event_id")
    assert lags.loc["e"].tolist() == [1.0, 4.0, 2.0]
    assert lags.loc["f", ["first_lag_days", "last_lag_days"]].isna().all()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["direct", "Direct", "(DIRECT)", "(direct) / (none)", "Direct / none"])
def test_direct_traffic_is_recognised_in_any_case(name):
    sequences = pd.DataFrame({"path": [f"search > {name}"], "n": [1]})
    touches = pd.DataFrame(
        {"user_id": "u", "node_id": ["search", name], "date": ["2025-01-01", "2025-01-02"]}
    )
    orders = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": ["2025-01-03"]})
    for paths in (
        Paths.from_frames(touches, orders),
        Paths.from_sequences(sequences, path="path", conversions="n"),
    ):
        credited = attribute(paths, "last_non_direct").set_index("node_id")["conversions"]
        assert credited[credited > 0].to_dict() == {"search": 1.0}


def test_paths_with_equal_names_are_distinguished():
    rows = [(["a > b", "c"], 3), (["a", "b > c"], 2), (["x", "y"], 1), (["x", "z"], 1)]
    touchpoints = [
        (f"{place}-{user}", node, pd.Timestamp(2025, 1, 1 + step))
        for place, (nodes, users) in enumerate(rows)
        for user in range(users)
        for step, node in enumerate(nodes)
    ]
    converted = [
        (f"e{user}", user, pd.Timestamp(2025, 1, 9))
        for user in dict.fromkeys([user for user, *_ in touchpoints])
    ]
    paths = Paths.from_frames(
        pd.DataFrame(touchpoints, columns=["user_id", "node_id", "date"]),
        pd.DataFrame(converted, columns=["event_id", "user_id", "date"]),
    )
    ids = ["a", "a > b", "b > c", "c", "x", "y", "z"]
    names = ["a", "a > b", "b > c", "c", "x", "brand", "brand"]
    named = replace(paths, nodes=pd.DataFrame({"node_id": ids, "name": names}))
    assert named.summary()[["path", "conversions"]].to_numpy().tolist() == [
        ["a > b > c", 3.0],
        ["a > b > c", 2.0],
        ["x > brand (y)", 1.0],
        ["x > brand (z)", 1.0],
    ]


@pytest.mark.parametrize("top", [-1, 1.5, "all"])
def test_summary_refuses_an_invalid_number_of_paths(top):
    with pytest.raises(errors.InvalidRequest, match="top"):
        Paths.from_frames(TOUCHPOINTS, CONVERSIONS).summary(top=top)


def test_columns_may_have_other_names():
    renamed = {"user_id": "customer", "date": "time"}
    touchpoints = TOUCHPOINTS.rename(columns={**renamed, "node_id": "channel"})
    converted = CONVERSIONS.rename(
        columns={**renamed, "event_id": "order", "value": "revenue", "currency": "unit"}
    )
    paths = Paths.from_frames(
        touchpoints,
        converted,
        user="customer",
        node="channel",
        date="time",
        conversion="order",
        value="revenue",
        currency="unit",
    )
    assert attribute(paths, "linear")["value"].tolist() == [15.0, 15.0, 12.0]


@pytest.mark.parametrize("index", ["user_id", ["user_id", "date"]])
def test_named_levels_of_an_index_are_columns(index):
    touchpoints, converted = TOUCHPOINTS.set_index(index), CONVERSIONS.set_index(index)
    assert attribute(Paths.from_frames(touchpoints, converted), "linear")["value"].tolist() == [
        15.0,
        15.0,
        12.0,
    ]
    paths = read_journeys(touchpoints, converted).paths()
    assert sorted(attribute(paths, "linear")["value"]) == [12.0, 15.0, 15.0]


def test_inputs_are_not_changed():
    touchpoints, converted = TOUCHPOINTS.copy(deep=True), CONVERSIONS.copy(deep=True)
    attribute(Paths.from_frames(touchpoints, converted), "linear")
    pd.testing.assert_frame_equal(touchpoints, TOUCHPOINTS)
    pd.testing.assert_frame_equal(converted, CONVERSIONS)


@pytest.mark.parametrize(
    "dates",
    [
        pd.to_datetime(
            ["2025-01-01T02:00:00+02:00", "2025-01-03T01:00:00+01:00", "2025-01-02T00:00:00Z"], utc=True
        ),
        pd.to_datetime(["2025-01-01", "2025-01-03", "2025-01-02"]).as_unit("ns"),
        pd.to_datetime(["2025-01-01", "2025-01-03", "2025-01-02"])
        .tz_localize("UTC")
        .tz_convert("America/New_York"),
        ["2025-01-01T02:00:00+02:00", "2025-01-03", "2025-01-01 19:00:00-05:00"],
        pd.to_datetime(["2025-01-01", "2025-01-03", "2025-01-02"]).date,
    ],
    ids=["aware", "naive nanoseconds", "other zone", "text", "dates"],
)
def test_instants_of_every_supported_type(dates):
    frame = Paths.from_frames(TOUCHPOINTS.assign(date=dates), CONVERSIONS).to_pandas()
    assert frame["date"].dropna().astype(str).tolist() == [
        "2025-01-01 00:00:00+00:00",
        "2025-01-03 00:00:00+00:00",
    ]


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["category", "int", "float", "Int64", "mixed ints"])
def test_identifiers_of_every_supported_type(kind):
    touched, converted = TOUCHPOINTS.copy(), CONVERSIONS.copy()
    if kind == "category":
        touched, converted = touched.astype({"user_id": "category", "node_id": "category"}), converted
    else:
        numbered = {"u": 1, "v": 2, "w": 3}
        as_types = {"mixed ints": ("int8", "float64")}.get(kind, (kind, kind))
        touched["user_id"] = touched["user_id"].map(numbered).astype(as_types[0])
        converted["user_id"] = converted["user_id"].map(numbered).astype(as_types[1])
    frame = attribute(Paths.from_frames(touched, converted), "linear")
    assert frame["conversions"].tolist() == [0.5, 0.5, 1.0]


@pytest.mark.slow
def test_arrow_tables_and_parquet_files_are_read_as_frames_are(tmp_path):
    expected = attribute(Paths.from_frames(TOUCHPOINTS, CONVERSIONS), "linear")
    TOUCHPOINTS.to_parquet(tmp_path / "touchpoints.parquet")
    (tmp_path / "many").mkdir()
    CONVERSIONS.iloc[:1].to_parquet(tmp_path / "many" / "1.parquet")
    CONVERSIONS.iloc[1:].to_parquet(tmp_path / "many" / "2.parquet")
    from_files = Paths.from_frames(tmp_path / "touchpoints.parquet", str(tmp_path / "many"))
    pd.testing.assert_frame_equal(attribute(from_files, "linear"), expected)
    from_arrow = Paths.from_frames(pa.Table.from_pandas(TOUCHPOINTS), pa.Table.from_pandas(CONVERSIONS))
    pd.testing.assert_frame_equal(attribute(from_arrow, "linear"), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("touchpoints", "conversions", "message"),
    [
        (
            TOUCHPOINTS.rename(columns={"node_id": "node"}),
            CONVERSIONS,
            "touchpoints: there is no column 'node_id'",
        ),
        (TOUCHPOINTS, CONVERSIONS.drop(columns="event_id"), "conversions: there is no column 'event_id'"),
        (TOUCHPOINTS.assign(node_id=None), CONVERSIONS, "3 rows.*'node_id' is missing"),
        (TOUCHPOINTS.assign(date=pd.NaT), CONVERSIONS, "'date' is missing"),
        (TOUCHPOINTS.assign(date="2025-02-30"), CONVERSIONS, "'date' is not an instant.*'2025-02-30'"),
        (TOUCHPOINTS.assign(date="infinity"), CONVERSIONS, "'date' is not an instant"),
        (TOUCHPOINTS.assign(date=1735689600), CONVERSIONS, "'date' holds int64"),
        (TOUCHPOINTS.assign(user_id=[1.5, 2.0, 3.0]), CONVERSIONS, "'user_id' is not a whole number"),
        (TOUCHPOINTS.assign(user_id=["u", 2, "v"]), CONVERSIONS, "'user_id' mixes int, str"),
        (TOUCHPOINTS.assign(node_id=[["a"], ["b"], ["c"]]), CONVERSIONS, "'node_id' holds array"),
        (TOUCHPOINTS, CONVERSIONS.assign(event_id="e"), "'event_id' occurs more than once.*row 0"),
        (TOUCHPOINTS, CONVERSIONS.assign(value=[1.0, np.inf]), "'value' is not finite"),
        (TOUCHPOINTS, CONVERSIONS.assign(value=["1", "2"]), "'value' holds string; allowed: numbers"),
        (TOUCHPOINTS["node_id"], CONVERSIONS, "touchpoints: must be a DataFrame, got Series"),
        (TOUCHPOINTS, None, "conversions: must be a DataFrame, got NoneType"),
        (Path("missing.parquet"), CONVERSIONS, "there is no file 'missing.parquet'"),
        (Path(__file__), CONVERSIONS, "is not a .parquet or .pq file"),
        (pd.concat([TOUCHPOINTS, TOUCHPOINTS], axis=1), CONVERSIONS, "occur more than once"),
        (
            TOUCHPOINTS.assign(user_id=[1.0, np.inf, 2.0]),
            CONVERSIONS,
            "'user_id' holds floats above 2.53",
        ),
        (
            TOUCHPOINTS.assign(user_id=[1.0, 1e300, 2.0]),
            CONVERSIONS,
            "'user_id' holds floats above 2.53",
        ),
        (TOUCHPOINTS.assign(user_id=[1, 2**53 + 2.0, 2]), CONVERSIONS, "'user_id' holds floats above 2.53"),
        (TOUCHPOINTS.assign(user_id=[10**25, 1, 2]), CONVERSIONS, "'user_id' cannot be read.*too large"),
        (TOUCHPOINTS.assign(user_id=[1j, 2j, 3j]), CONVERSIONS, "'user_id' cannot be read.*complex128"),
        (TOUCHPOINTS, CONVERSIONS.assign(value=[10**30, 1]), "'value' cannot be read.*too large"),
        (pd.DataFrame(), CONVERSIONS, "touchpoints: the table has no column"),
    ],
)
def test_bad_input_is_refused_by_name(touchpoints, conversions, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        Paths.from_frames(touchpoints, conversions)


@pytest.mark.parametrize("content", ["", "no Parquet"])
def test_a_file_with_invalid_content_is_refused(content, tmp_path):
    file = tmp_path / "touchpoints.parquet"
    file.write_text(content)
    with pytest.raises(errors.InvalidRequest, match=r"touchpoints: 'touchpoints.parquet' cannot be read"):
        Paths.from_frames(file, CONVERSIONS)


@pytest.mark.slow
def test_a_folder_of_parquet_files_may_have_any_name(tmp_path):
    folder = tmp_path / "it's [a] *"
    folder.mkdir()
    with pytest.raises(errors.InvalidRequest, match=r"touchpoints: there is no Parquet file in "):
        Paths.from_frames(folder, CONVERSIONS)
    TOUCHPOINTS.iloc[:1].to_parquet(folder / "first.parquet")
    TOUCHPOINTS.iloc[1:].to_parquet(folder / "second.parquet")
    assert Paths.from_frames(folder, CONVERSIONS).to_pandas()["node_id"].tolist()[:2] == ["search", "email"]


def test_only_columns_that_have_an_argument_are_named_by_one():
    with pytest.raises(errors.InvalidRequest, match="name another with user="):
        Paths.from_frames(TOUCHPOINTS.rename(columns={"user_id": "user"}), CONVERSIONS)
    later = pd.DataFrame({"event_id": ["e"], "date": ["2025-02-01"], "amount": [-3.0]})
    with pytest.raises(errors.InvalidRequest, match="there is no column 'value'") as has_invalid_weight:
        Paths.from_frames(TOUCHPOINTS, CONVERSIONS, adjustments=later)
    assert "name another" not in str(has_invalid_weight.value)
    users = pd.DataFrame({"user_id": ["u"], "until": ["2025-02-01"]})
    with pytest.raises(errors.InvalidRequest, match="there is no column 'since'") as has_invalid_weight:
        Paths.from_frames(TOUCHPOINTS, CONVERSIONS, users=users)
    assert "name another" not in str(has_invalid_weight.value)


@pytest.mark.parametrize("lookback", ["0D", "-1D", "soon", "", "NaT", 30, None])
def test_invalid_lookbacks_are_refused(lookback):
    with pytest.raises(errors.InvalidRequest, match="lookback"):
        Paths.from_frames(TOUCHPOINTS, CONVERSIONS, lookback=lookback)


def test_duplicate_touch_ids_are_refused():
    with pytest.raises(errors.InvalidRequest, match="'id' occurs more than once"):
        Paths.from_frames(TOUCHPOINTS.assign(id="1"), CONVERSIONS, columns={"touch": "id"})


class TestSequences:
    """Aggregated paths."""

    frame = pd.DataFrame(
        {
            "path": ["beta > zeta > beta", "zeta", "beta"],
            "total_conversions": [3, 1, 0],
            "total_value": [30.0, 4.0, 0.0],
            "total_null": [10, 0, 5],
        }
    )

    def paths(self, frame=None, **options):
        options = {"value": "total_value", "nulls": "total_null"} | options
        frame = self.frame if frame is None else frame
        return Paths.from_sequences(frame, path="path", conversions="total_conversions", **options)

    def test_credits_weight_each_path_by_its_conversions(self):
        credits = attribute(self.paths(), ["linear", "first_touch", "participation"]).set_index(
            ["model", "node_id"]
        )
        assert credits["conversions"].to_dict() == pytest.approx(
            {
                ("linear", "beta"): 2.0,
                ("linear", "zeta"): 2.0,
                ("first_touch", "beta"): 3.0,
                ("first_touch", "zeta"): 1.0,
                ("participation", "zeta"): 4.0,
                ("participation", "beta"): 3.0,
            }
        )
        # beta occurs twice in a path worth 30, zeta once, and alone in one worth 4.
        assert credits.loc["linear", "value"].to_dict() == pytest.approx({"beta": 20.0, "zeta": 14.0})

    def test_node_names_of_any_characters_are_kept(self):
        frame = pd.DataFrame({"path": ["google / organic > (direct) 24%,' > 7"], "total_conversions": [2]})
        paths = self.paths(frame, value=None, nulls=None)
        assert paths.to_pandas()["node_id"].tolist() == ["google / organic", "(direct) 24%,'", "7"]

    def test_a_value_without_conversions_is_refused(self):
        frame = self.frame.assign(total_value=[30.0, 4.0, 9.0])
        with pytest.raises(
            errors.InvalidRequest,
            match="'total_value' is not zero although the path has no conversions.*row 2",
        ):
            self.paths(frame)

    def test_models_that_need_dates_are_refused(self):
        with pytest.raises(errors.InvalidRequest, match="time decay needs the dates"):
            attribute(self.paths(), "time_decay")
        with pytest.raises(errors.InvalidRequest, match="lags needs the dates"):
            self.paths().lags()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"path": [" > ", "zeta", "beta"]}, "row 0 has an empty node"),
            ({"path": ["beta", "", "beta"]}, "row 1 has an empty node"),
            ({"path": ["beta", None, "beta"]}, "'path' is missing"),
            ({"total_conversions": [1, -1, 0]}, "'total_conversions' is below 0.*row 1"),
            ({"total_conversions": ["1,000", "2", "3"]}, "'total_conversions' holds string"),
            ({"total_null": [1, 2, -3]}, "'total_null' is below 0"),
            ({"total_value": [1.0, 2.0, np.inf]}, "'total_value' is not finite"),
        ],
    )
    def test_bad_input_is_refused_by_name(self, change, message):
        with pytest.raises(errors.InvalidRequest, match=message):
            self.paths(self.frame.assign(**change))

    def test_an_empty_separator_is_refused(self):
        with pytest.raises(errors.InvalidRequest, match="separator"):
            self.paths(separator="")

    def test_no_path_gives_no_credit(self):
        assert attribute(self.paths(self.frame.iloc[:0]), "linear").empty


@pytest.mark.parametrize(
    "call",
    [
        lambda frame: removal_effects(frame),
        lambda frame: transition_matrix(frame),
        lambda frame: touch_credits(frame, "linear"),
        lambda frame: explain(frame, "linear", "e"),
        lambda frame: compare_orders(frame),
        lambda frame: compare_lookbacks(frame),
    ],
)
def test_touchpoints_are_not_paths(call):
    with pytest.raises(errors.InvalidRequest, match="paths: DataFrame is not Paths; allowed: .*from_frames"):
        call(TOUCHPOINTS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::attrib_ds.errors.UnknownCurrency")
def test_a_currency_is_a_column_or_the_code_of_values_without_one():
    orders = CONVERSIONS.drop(columns="currency")
    mixed = orders.assign(currency=[None, "CHF"], EUR=["NOK", "SEK"])
    cases = [(orders, None, [None, None]), (orders, "eur", ["EUR", "EUR"]), (mixed, "USD", ["USD", "CHF"])]
    cases += [(mixed, None, [None, "CHF"]), (mixed, "EUR", ["NOK", "SEK"])]
    for conversions, currency, expected in cases:
        paths = Paths.from_frames(TOUCHPOINTS, conversions, currency=currency)
        of_event = paths.to_pandas().groupby("event_id")["currency"].first()
        assert [None if pd.isna(unit) else unit for unit in of_event] == expected
    with pytest.raises(errors.InvalidRequest, match="no column 'euro' for the currency"):
        Paths.from_frames(TOUCHPOINTS, orders, currency="euro")


def test_values_of_aggregated_paths_have_the_currency_of_a_column_or_of_a_code():
    rows = pd.DataFrame({"path": ["a", "b"], "n": [1, 1], "v": [30.0, 20.0], "unit": ["EUR", "CHF"]})
    for currency, expected in ((None, [None, None]), ("unit", ["EUR", "CHF"]), ("NOK", ["NOK", "NOK"])):
        paths = Paths.from_sequences(rows, path="path", conversions="n", value="v", currency=currency)
        credits = attribute(paths, "last_touch").sort_values("node_id")
        assert [None if pd.isna(unit) else unit for unit in credits["currency"]] == expected


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("dates", "credited"),
    [
        (["2025-01-02", "2025-01-03"], 2),
        (pd.to_datetime(["2025-01-02", "2025-01-03"]), 2),
        (["2025-01-02 00:00:00", "2025-01-03T00:00"], 2),
        (["2025-01-02", "2025-01-03T12:00:00Z"], 2),
        (["2025-01-02T00:00:00Z", "2025-01-03T00:00:00Z"], 1),
        (["2025-01-02 00:00:00", "2025-01-03"], 2),
        (["2025-01-02 00:00:00", "2025-01-03 10:00:00"], 1),
        (["2025-01-02", "2025-01-03 10:00:00"], 2),
        # One time of day makes all of them instants, and so does a time zone: the first is before its touchpoint.
        (pd.to_datetime(["2025-01-02 00:00", "2025-01-03 00:01"]), 1),
        (pd.to_datetime(["2025-01-02", "2025-01-03"], utc=True), 1),
    ],
)
@pytest.mark.filterwarnings("ignore:clocks")
def test_g253_a_column_of_midnights_is_days(dates, credited):
    touches = pd.DataFrame({"user_id": ["u"], "node_id": ["ads"], "date": ["2025-01-02T10:00:00Z"]})
    orders = pd.DataFrame({"user_id": "u", "event_id": ["1", "2"], "date": dates})
    shares = attribute(Paths.from_frames(touches, orders), "last_touch").set_index("node_id")["conversions"]
    assert shares["ads"] == credited


def test_g224_a_period_of_paths_begins_at_its_microsecond():
    """An order of 08:00:00.000 is before 08:00:00.0005."""
    date = pd.to_datetime(["2025-03-06T08:00Z"])
    clicks = pd.DataFrame({"user_id": ["u"], "node_id": ["n"], "date": date - pd.Timedelta("1D")})
    paths = Paths.from_frames(clicks, pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": date}))
    assert paths.within(since="2025-03-06T08:00:00.000500Z").to_pandas().empty
    assert len(paths.within(since="2025-03-06T08:00:00.000Z", until="2025-03-06T08:00:00.0005Z").to_pandas())


def test_lengths_of_time_may_be_those_of_numpy():
    date = pd.to_datetime(["2025-03-06T08:00Z"])
    clicks = pd.DataFrame({"user_id": ["u"], "node_id": ["n"], "date": date - pd.Timedelta("1D")})
    orders = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": date})
    for hours, count in ((23, 0), (25, 1)):
        paths = Paths.from_frames(clicks, orders, lookback=np.timedelta64(hours, "h"))
        assert paths.to_pandas()["node_id"].notna().sum() == count
    with pytest.raises(errors.InvalidRequest, match="lookback: "):
        Paths.from_frames(clicks, orders, lookback=np.timedelta64("NaT"))
