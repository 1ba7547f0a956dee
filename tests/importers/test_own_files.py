"""Users' own files: columns matched by common names, rejected rows listed."""

import gzip
import io
import os
from pathlib import Path

import pandas as pd
import pytest

from attrib_ds import Reading, attribute, connect, conversion_paths, errors
from attrib_ds.importers.own_journeys import read_journeys
from attrib_ds.importers.own_paths import read_sequences
from attrib_ds.importers.own_spend import read_spend

TOUCHES = """customer_id,time,channel
u,2025-01-01T10:00:00Z,search
u,2025-01-02 10:00:00,email
v,2025-01-03T10:00:00+02:00,social
"""
ORDERS = """order_id;client_id;order_date;revenue;currency
1;u;2025-01-05;"1,030.50";EUR
2;v;2025-01-05T12:00;20;EUR
"""


def table(credits, *columns):
    return credits[list(columns)].to_numpy().tolist()


@pytest.mark.slow
def test_columns_are_matched_by_common_names(write):
    journeys = read_journeys(write("touches.csv", TOUCHES), write("orders.csv", ORDERS))
    assert journeys.counts == {"interactions": 3, "events": 2}
    assert journeys.columns == {
        "touchpoints": {"user": "customer_id", "node": "channel", "date": "time"},
        "conversions": {
            "user": "client_id",
            "date": "order_date",
            "conversion": "order_id",
            "value": "revenue",
            "currency": "currency",
        },
    }
    assert journeys.rejected.empty
    credits = attribute(journeys.paths(), "linear")
    assert sorted(table(credits, "node_id", "conversions", "value", "currency")) == [
        ["email", 0.5, 515.25, "EUR"],
        ["search", 0.5, 515.25, "EUR"],
        ["social", 1.0, 20.0, "EUR"],
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["csv.gz", "ndjson", "parquet", "bom"])
def test_file_formats(write, tmp_path, kind):
    frame = pd.read_csv(write("touches.csv", TOUCHES))
    if kind == "csv.gz":
        file = tmp_path / "packed.csv.gz"
        file.write_bytes(gzip.compress(TOUCHES.encode()))
    elif kind == "ndjson":
        file = tmp_path / "touches.ndjson"
        frame.to_json(file, orient="records", lines=True)
    elif kind == "bom":
        file = write("bom.csv", "\ufeff" + TOUCHES)
    else:
        file = tmp_path / "touches.parquet"
        frame.to_parquet(file)
    journeys = read_journeys(file, write("orders.csv", ORDERS))
    assert attribute(journeys.paths(), "last_touch")["conversions"].sum() == 2


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        ("a.csv.gz", lambda packed: packed[:-9], "'a.csv.gz' cannot be read: Compressed file ended before"),
        ("a.csv.gz", lambda packed: packed + b"garbage", "'a.csv.gz' cannot be read: Not a gzipped file"),
        ("a.csv.gz", lambda packed: packed[:12] + b"\xff\xff" + packed[14:], "'a.csv.gz' cannot be read: "),
        (
            "a.ndjson",
            lambda _: b'{"user": "\\ud800x"}\n',
            r"a.ndjson has no readable rows \(row 1: not valid JSON\)",
        ),
    ],
)
def test_damaged_files_are_named(write, tmp_path, name, damage, problem):
    (tmp_path / name).write_bytes(damage(gzip.compress(TOUCHES.encode())))
    with pytest.raises(errors.InvalidRequest, match=f"^touchpoints: {problem}"):
        read_journeys(tmp_path / name, write("orders.csv", ORDERS))


def test_touchpoints_that_are_alike_are_several(write):
    line = "u,2025-01-01T10:00:00Z,search\n"
    journeys = read_journeys(write("touches.csv", TOUCHES + line), write("orders.csv", ORDERS))
    searches = journeys.interactions[journeys.interactions["nodeId"] == "search"]
    assert searches["_id"].nunique() == 2


def test_columns_without_common_names_can_be_named(write):
    touches = TOUCHES.replace("customer_id,time,channel", "werber,wann,kanal")
    orders = ORDERS.replace("order_id;client_id;order_date;revenue", "nummer;helfer;am;umsatz")
    with pytest.raises(
        errors.InvalidRequest,
        match="no column that looks like the user; columns: .*werber.*; name it with reading=Reading.columns=",
    ):
        read_journeys(write("t.csv", touches), write("o.csv", orders))
    columns = {
        "user": "werber",
        "conversion_user": "helfer",
        "node": "kanal",
        "date": "wann",
        "conversion": "nummer",
        "conversion_date": "am",
        "value": "umsatz",
    }
    journeys = read_journeys(
        write("t.csv", touches), write("o.csv", orders), reading=Reading(columns=columns)
    )
    assert attribute(journeys.paths(), "linear")["value"].sum() == pytest.approx(1050.5)
    with pytest.raises(errors.InvalidRequest, match="no column 'werb' \\(did you mean 'werber'"):
        read_journeys(
            write("t.csv", touches),
            write("o.csv", orders),
            reading=Reading(columns=columns | {"user": "werb"}),
        )
    with pytest.raises(errors.InvalidRequest, match="columns: 'usr' is not allowed \\(did you mean 'user'"):
        read_journeys(
            write("t.csv", touches),
            write("o.csv", orders),
            reading=Reading(columns=columns | {"usr": "werber"}),
        )


@pytest.mark.large
@pytest.mark.slow
def test_empty_columns_are_skipped(write):
    touches = "user_id,source,channel,date\nu,,search,2025-01-01\n"
    journeys = read_journeys(write("t.csv", touches), write("o.csv", ORDERS))
    assert journeys.columns["touchpoints"]["node"] == "channel"
    touches = "user_id,channel,source,date\nu,,search,2025-01-01\n"
    journeys = read_journeys(write("t.csv", touches), write("o.csv", ORDERS))
    assert journeys.columns["touchpoints"]["node"] == "source"


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.RejectedRows")
def test_unreadable_rows_are_listed_and_the_others_used(write):
    touches = TOUCHES + ",2025-01-01,search\nu,2025-02-30,search\nu,soon,\na,b\nu,2025-01-04,tv\n"
    orders = ORDERS + "3;u;2025-01-05;much;EUR\n4;u;;5;EUR\n"
    journeys = read_journeys(write("t.csv", touches), write("o.csv", orders))
    assert journeys.counts == {"interactions": 4, "events": 2}
    advice = "; write dates as '2025-01-31' or '2025-01-31T12:00:00Z'"
    listed = journeys.rejected.assign(file=[Path(file).name for file in journeys.rejected["file"]])
    assert sorted(table(listed, "file", "row", "reason")) == [
        ["o.csv", 4, "revenue is not a number: 'much'"],
        ["o.csv", 5, "order_date is missing"],
        ["t.csv", 5, "customer_id is missing"],
        ["t.csv", 6, f"time is not a date: '2025-02-30'{advice}"],
        ["t.csv", 7, f"channel is missing; time is not a date: 'soon'{advice}"],
        ["t.csv", 8, "2 cells where the header has 3"],
    ]


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
@pytest.mark.parametrize(
    ("name", "written", "row"),
    [
        ("o.csv", "Orders of 2025\n\nuser_id,date\nu,2025-01-03\nu,soon\n", 5),
        ("o.csv", 'user_id,date,note\nu,2025-01-03,"two\nlines"\nu,soon,\n', 3),
        ("o.ndjson", '{"user_id": "u", "date": "2025-01-03"}\n{"user_id": "u", "date": "soon"}\n', 2),
        ("o.xlsx", [["Orders of 2025", None], ["user_id", "date"], ["u", "2025-01-03"], ["u", "soon"]], 4),
        ("o.parquet", pd.DataFrame({"user_id": "u", "date": ["2025-01-03", "soon"]}), 2),
        (None, pd.DataFrame({"user_id": "u", "date": ["2025-01-03", "soon"]}), 1),
    ],
)
def test_rows_of_files_are_numbered_as_people_see_them(write, tmp_path, name, written, row):
    """The header is row 1, and a cell of two lines is of one row; frames count positions from 0."""
    file = written if name is None else tmp_path / name
    if isinstance(written, str):
        file = write(name, written)
    elif isinstance(written, list):
        pd.DataFrame(written).to_excel(file, header=False, index=False)
    elif name is not None:
        written.to_parquet(file)
    with pytest.warns(errors.RejectedRows, match=f"the first is row {row} of"):
        assert read_journeys(write("t.csv", TOUCHES), file).rejected["row"].tolist() == [row]


def test_a_file_without_readable_rows_is_refused(write):
    with pytest.raises(errors.InvalidRequest, match="has no readable rows .row 2: time is not a date"):
        read_journeys(write("t.csv", "customer_id,time,channel\nu,soon,search\n"), write("o.csv", ORDERS))
    with pytest.raises(errors.InvalidRequest, match="has no rows"):
        read_journeys(write("t.csv", "customer_id,time,channel\n"), write("o.csv", ORDERS))


def test_a_row_that_stands_twice_counts_once_and_other_rows_of_an_id_are_refused():
    touches = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": ["2025-01-01"]})
    orders = pd.DataFrame({"order_id": ["1", "1"], "user": "u", "date": "2025-01-02", "value": ["1", "1"]})
    with pytest.warns(errors.InputWarning, match="2 rows of 1 conversion; the value of each counts once"):
        assert len(read_journeys(touches, orders).events) == 1
    with pytest.raises(errors.InvalidRequest, match="aggregate the rows of a conversion"):
        read_journeys(touches, orders.assign(value=["1", "2"]))


def test_duplicate_conversions_are_refused(write):
    with pytest.raises(
        errors.InvalidRequest, match="1 row more than distinct values of 'order_id'; aggregate"
    ):
        read_journeys(write("t.csv", TOUCHES), write("o.csv", ORDERS + "2;v;2025-01-06;1;EUR\n"))


def test_flagged_touchpoints_are_conversions(write):
    flagged = """user,time,channel,conversion,conversion_value
u,2025-01-01T10:00:00Z,search,0,0
u,2025-01-02T10:00:00Z,email,1,12.5
u,2025-01-03T10:00:00Z,tv,true,7.5
"""
    journeys = read_journeys(write("t.csv", flagged))
    assert journeys.counts == {"interactions": 3, "events": 2}
    # The first conversion is the second touch; the second one has all three in its path.
    first = attribute(journeys.paths(), ["first_touch", "last_touch"]).set_index(["model", "node_id"])[
        "value"
    ]
    assert first.to_dict() == {
        ("first_touch", "search"): 20.0,
        ("first_touch", "email"): 0.0,
        ("first_touch", "tv"): 0.0,
        ("last_touch", "search"): 0.0,
        ("last_touch", "email"): 12.5,
        ("last_touch", "tv"): 7.5,
    }


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
def test_conversions_without_an_identifier_have_ids_from_user_and_date(write):
    touches = write("t.csv", TOUCHES)
    orders = "user_id,date,value\nu,2025-01-05,5\nu,2025-01-05,5\nv,2025-01-06,7\n"
    first = read_journeys(touches, write("o.csv", orders)).events.set_index("event.sourceId")["_id"]
    assert sorted(first.index) == [
        "u 2025-01-05T00:00:00.000000Z",
        "u 2025-01-05T00:00:00.000000Z 2",
        "v 2025-01-06T00:00:00.000000Z",
    ]
    # The same conversion in another row of another file has the same id, and no other conversion has it.
    orders = "user_id,date,value\nv,2025-01-06,7\nw,2025-01-07,1\n"
    later = read_journeys(touches, write("p.csv", orders)).events.set_index("event.sourceId")["_id"]
    assert set(later) & set(first) == {first["v 2025-01-06T00:00:00.000000Z"]}


@pytest.mark.large
@pytest.mark.slow
def test_values_without_a_currency_are_plain_numbers(write):
    orders = "user_id,date,value\nu,2025-01-05,5\nv,2025-01-06,7\n"
    journeys = read_journeys(write("t.csv", TOUCHES), write("o.csv", orders), event_type="Won deal")
    assert attribute(journeys.paths(), "last_touch")["value"].sum() == 12
    with connect("shop", path=":memory:") as shop:
        assert journeys.load(shop).rejected.empty
        paths = conversion_paths(shop, event_type="won_deal", statistic="revenue")
        assert attribute(paths, "last_touch")["value"].sum() == 12


def test_frames_are_read():
    touches = pd.read_csv(io.StringIO(TOUCHES))
    orders = pd.read_csv(io.StringIO(ORDERS), sep=";")
    journeys = read_journeys(touches, orders)
    assert journeys.counts == {"interactions": 3, "events": 2}
    assert attribute(journeys.paths(), "linear")["value"].sum() == pytest.approx(1050.5)


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2025-01-01T10:00:00Z", "2025-01-01 10:00:00+00:00"),
        ("2025-01-01 10:00:00.000 +0100", "2025-01-01 09:00:00+00:00"),
        ("2025-01-01T10:00:00-1130", "2025-01-01 21:30:00+00:00"),
        ("2025-01-01 10:00", "2025-01-01 10:00:00+00:00"),
        ("2025-01-01", "2025-01-01 00:00:00+00:00"),
        ("2025-01-01t10:00:00.123456789z", "2025-01-01 10:00:00.123456+00:00"),
        # As BigQuery, PostgreSQL and DuckDB write them.
        ("2025-01-01 10:00:00.5 UTC", "2025-01-01 10:00:00.500+00:00"),
        ("2025-01-01 10:00:00 UTC", "2025-01-01 10:00:00+00:00"),
        ("2025-01-01 10:00:00+01", "2025-01-01 09:00:00+00:00"),
        ("2025-01-01 10:00:00.25-05", "2025-01-01 15:00:00.250+00:00"),
    ],
)
def test_formats_of_instants(write, written, read):
    touches = f"user_id,date,channel\nu,{written},search\n"
    journeys = read_journeys(write("t.csv", touches), write("o.csv", ORDERS))
    assert journeys.paths().to_pandas()["date"].dropna().astype(str).tolist() == [read]


def test_sequences(write):
    file = write("paths.csv", 'path,total_conversions,total_null\na > b,"1,200",5\nb,x,1\na,0,7\n')
    sequences = read_sequences(file)
    assert table(attribute(sequences.paths, "linear"), "node_id", "conversions") == [
        ["a", 600.0],
        ["b", 600.0],
    ]
    assert sequences.rejected["reason"].tolist() == ["total_conversions is not a number of at least 0: 'x'"]
    with pytest.raises(errors.InvalidRequest, match="looks like the conversions.*'conversions': COLUMN"):
        read_sequences(write("other.csv", "path,many\na,1\n"))


def test_spend(write):
    spend, rejected = read_spend(write("spend.csv", "channel,cost,currency\nsearch,10,EUR\ntv,-5,EUR\n"))
    assert table(spend, "node_id", "spend", "currency") == [["search", 10.0, "EUR"]]
    assert rejected["reason"].tolist() == ["cost is not a number of at least 0: '-5'"]


@pytest.mark.real_data
class TestRealData:
    """Published data sets; ``ATTRIB_DS_REAL_DATA`` names the folder that holds them."""

    @pytest.fixture
    def folder(self):
        path = os.environ.get("ATTRIB_DS_REAL_DATA")
        if path is None:
            pytest.skip("real data: ATTRIB_DS_REAL_DATA is not set")
        return Path(path)

    def test_touches_with_a_flag(self, folder):
        journeys = read_journeys(folder / "touches.csv.gz")
        assert journeys.counts == {"interactions": 62_483, "events": 1_838}
        credits = attribute(journeys.paths(), ["first_touch", "linear", "time_decay"])
        assert credits.groupby("model")["value"].sum().tolist() == pytest.approx([11_423.5] * 3)

    def test_aggregated_paths(self, folder):
        sequences = read_sequences(folder / "pathdata.csv.gz")
        credits = attribute(sequences.paths, ["first_touch", "last_touch", "linear"])
        totals = credits.groupby("model")[["conversions", "value"]].sum()
        assert totals["conversions"].tolist() == pytest.approx([19_785] * 3)
        assert totals["value"].tolist() == pytest.approx([74_802.97] * 3, abs=0.01)

    def test_aggregated_paths_with_thousands_separators(self, folder):
        sequences = read_sequences(folder / "ga_mcf_paths.csv")
        assert sequences.counts == {"paths": 1_000}
        assert sequences.rejected.empty


@pytest.mark.large
@pytest.mark.slow
def test_values_without_a_currency_get_the_one_that_is_given(write):
    orders = write(
        "orders.csv", "order_id,user_id,date,value,currency\n1,u,2025-01-05,30,\n2,v,2025-01-05,20,CHF\n"
    )
    journeys = read_journeys(write("touches.csv", TOUCHES), orders, currency="EUR")
    credits = attribute(journeys.paths(), "last_touch")[["node_id", "value", "currency"]]
    assert {tuple(row) for row in credits.to_numpy() if row[1]} == {
        ("email", 30.0, "EUR"),
        ("social", 20.0, "CHF"),
    }
    sequences = write("paths.csv", "path,conversions,value\na > b,2,90\n")
    credits = attribute(read_sequences(sequences, currency="EUR").paths, "last_touch")
    assert table(credits, "node_id", "value", "currency") == [["b", 90.0, "EUR"], ["a", 0.0, "EUR"]]
    spend, _ = read_spend(write("spend.csv", "channel,cost\na,5\n"), currency="EUR")
    assert table(spend, "node_id", "spend", "currency") == [["a", 5.0, "EUR"]]


def test_the_node_of_spend_can_be_one_of_the_parts_of_a_traffic_source(write):
    costs = write("costs.csv", "utm_source,utm_medium,utm_campaign,cost\ngoogle,cpc,,5\n")
    spend, _ = read_spend(costs, columns={"spend_node": "utm_medium"})
    assert table(spend, "node_id", "spend") == [["cpc", 5.0]]


def test_renamed_campaigns_are_one_in_touchpoints_and_spend():
    clicks = pd.DataFrame(
        {
            "user": ["u", "v"],
            "utm_source": ["google", "google"],
            "utm_medium": ["cpc", "cpc"],
            "utm_campaign": ["Spring_Sale", "summer sale"],
            "date": ["2025-01-01T10:00", "2025-01-02T10:00"],
        }
    )
    orders = pd.DataFrame({"order_id": [1, 2], "user": ["u", "v"], "date": "2025-01-03T10:00", "value": 30.0})
    spend = clicks.rename(columns={"user": "spend"}).assign(spend=[7.0, 8.0])
    arguments = {"spend": spend, "currency": "EUR"}
    journeys = read_journeys(clicks, orders, aliases={"spring sale": "summer sale"}, **arguments)
    credits = attribute(journeys.paths(), "linear")
    assert credits[["node_id", "value", "spend"]].to_numpy().tolist() == [
        ["google/cpc/summer sale", 60.0, 15.0]
    ]
    assert len(attribute(read_journeys(clicks, orders, **arguments).paths(), "linear")) == 2
    tree = clicks.rename(columns={"utm_source": "Group", "utm_campaign": "Name"}).drop(columns="utm_medium")
    of_levels = read_journeys(
        tree,
        orders,
        reading=Reading(columns={"node": ["Group", "Name"]}),
        aliases={"google": "Search", "Spring Sale": "Summer"},
    )
    assert set(of_levels.interactions["nodeId"]) == {"Search/Summer", "Search/summer sale"}
    with pytest.warns(errors.InputWarning, match="aliases: no campaign or other node is named 'autumn'"):
        read_journeys(clicks, orders, aliases={"autumn": "winter"})


def test_countries_and_devices_of_files_divide_the_conversions():
    clicks = pd.DataFrame(
        {
            "user": ["u", "u", "v"],
            "channel": ["Ads", "Mail", "Ads"],
            "date": ["2025-01-01T10:00", "2025-01-02T10:00", "2025-01-01T10:00"],
            "device": ["mobile", "desktop", "mobile"],
        }
    )
    orders = pd.DataFrame({"order_id": [1, 2, 3], "user": ["u", "v", "w"], "date": "2025-01-03T10:00"})
    paths = read_journeys(clicks, orders.assign(country=["FR", None, "US"])).paths()

    def events(by):
        return {name: own.to_pandas()["event_id"].unique().tolist() for name, own in paths.split(by).items()}

    assert events("country") == {"(no country)": ["2"], "FR": ["1"], "US": ["3"]}
    # That of the last touchpoint.
    assert events("device_type") == {"(no device_type)": ["3"], "desktop": ["1"], "mobile": ["2"]}
    with pytest.raises(errors.InvalidRequest, match="by: 'city' is not allowed; allowed: .*device_type"):
        paths.split("city")
