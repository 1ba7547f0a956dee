"""The export of Google Analytics 4 to BigQuery; the expected values are worked out from the files by hand."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet
import pytest

import attrib_ds as at
from attrib_ds import errors

# Many of the exports here are a single visit.
pytestmark = pytest.mark.filterwarnings(
    "ignore::attrib_ds.errors.InputWarning", "ignore::attrib_ds.errors.RejectedRows"
)

DATA = Path(__file__).parent / "data"
DAYS = [DATA / "events_20250101.json", DATA / "events_20250102.json"]
BOOTS, MAIL = "google/cpc/Spring Boots/Boots", "newsletter/email/january//header"
SEARCH, SOCIAL = "organic-search/google", "organic-social/facebook.com"


def credited(journeys, model="linear", **arguments):
    credits = at.attribute(journeys.paths(**arguments), model)
    return {row.node_id: (row.conversions, row.value) for row in credits.itertuples()}


def rows(path):
    """The lines of a file that are JSON, as a table with the types of the export."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    for line in lines:
        if line["event_timestamp"].isdigit():
            line["event_timestamp"] = int(line["event_timestamp"])
    return [line for line in lines if isinstance(line["event_timestamp"], int)]


def test_sessions():
    journeys = at.read_ga4(DAYS)
    sessions = journeys.interactions
    assert sessions["nodeId"].tolist() == [SOCIAL, BOOTS, SEARCH, MAIL, "direct"]
    # A session began in the second that is its id; it ended with its last event.
    assert sessions["startDate"][1] == pd.Timestamp("2025-01-01T10:00:00Z")
    assert sessions["endDate"][1] == pd.Timestamp("2025-01-01T10:04:00Z")
    assert sessions["hitCount"].tolist() == [1, 2, 1, 1, 1]
    assert sessions["referrerType"].tolist() == ["social", "campaign", "search", "campaign", "direct"]
    assert sessions["firstPageUrl.search"].tolist()[1] == "?gclid=Cj0K"
    assert sessions["firstPageUrl.hash"].tolist()[1] == "#top"
    assert journeys.hits["pageUrl.pathname"].tolist() == ["/", "/boots", "/boots/ridge", "/", "/sale", "/"]


def test_nodes_are_a_tree_of_source_medium_campaign_and_ad():
    nodes = at.read_ga4(DAYS).nodes.set_index("_id")
    assert nodes.loc[BOOTS, ["type", "parentId", "name", "channel"]].tolist() == [
        "adset",
        "google/cpc/Spring Boots",
        "Boots",
        "Paid Search",
    ]
    campaign = nodes.loc["google/cpc/Spring Boots"]
    assert campaign[["type", "parentId", "externalId"]].tolist() == ["campaign", "google/cpc", "20145"]
    assert nodes.loc["google/cpc", ["type", "source", "medium"]].tolist() == ["integration", "google", "cpc"]
    assert nodes.loc[MAIL, "type"] == "ad"
    assert nodes.loc["direct", "name"] == "Direct"
    assert nodes["parentId"].dropna().isin(nodes.index).all()


@pytest.mark.slow
def test_orders_are_kept_once_with_their_revenue():
    journeys = at.read_ga4(DAYS)
    events = journeys.events
    assert events["event.sourceId"].tolist() == ["T-1001", "T-1002"]
    # The page of thanks was loaded twice; the first time counts.
    assert journeys.repeated == 1
    assert events["eventDate"].astype(str).tolist()[0] == "2025-01-02 10:20:00+00:00"
    assert events["statistics.revenue.amount"].tolist() == [120.5, 80.0]
    assert events["statistics.revenue.currency"].tolist() == ["EUR", "EUR"]
    assert credited(journeys) == {
        BOOTS: (0.5, 60.25),
        MAIL: (0.5, 60.25),
        SOCIAL: (pytest.approx(1 / 3), pytest.approx(80 / 3)),
        SEARCH: (pytest.approx(1 / 3), pytest.approx(80 / 3)),
        "direct": (pytest.approx(1 / 3), pytest.approx(80 / 3)),
    }


@pytest.mark.large
@pytest.mark.slow
def test_stitching_assigns_a_device_to_the_user_seen_on_it():
    apart = at.read_ga4(DAYS, stitch=False)
    # The search of the device before the login is somebody else's now.
    assert credited(apart) == {
        BOOTS: (0.5, 60.25),
        MAIL: (0.5, 60.25),
        SOCIAL: (0.5, 40.0),
        "direct": (0.5, 40.0),
    }
    assert apart.interactions["userId"].nunique() == 3
    assert at.read_ga4(DAYS).interactions["userId"].nunique() == 2


def test_last_click_gives_a_direct_session_the_source_before_it():
    assert at.read_ga4(DAYS, traffic="last_click").interactions["nodeId"].tolist() == [
        SOCIAL,
        BOOTS,
        SEARCH,
        MAIL,
        SEARCH,
    ]


@pytest.mark.slow
def test_other_events_can_be_conversions():
    journeys = at.read_ga4(DAYS, conversions=["generate_lead", "purchase"])
    assert sorted(journeys.events["eventType"]) == ["generate_lead", "purchase", "purchase"]
    assert credited(journeys, "last_touch", event_type="generate_lead")["direct"] == (1.0, 10.0)
    with pytest.raises(
        errors.InvalidRequest,
        match="event_type is required with several event types; allowed: generate_lead, pur",
    ):
        journeys.paths()
    with pytest.raises(errors.InvalidRequest, match="event_type: 'order' is not allowed"):
        journeys.paths(event_type="order")


def test_invalid_rows_are_rejected_with_a_reason():
    rejected = at.read_ga4(DAYS).rejected
    listed = [(Path(row.file).name, row.row, row.reason) for row in rejected.itertuples()]
    assert listed == [
        ("events_20250101.json", 8, "not valid JSON"),
        ("events_20250102.json", 8, "user_pseudo_id and user_id are missing"),
        ("events_20250102.json", 9, "event_timestamp is not a number of microseconds"),
    ]


@pytest.mark.parametrize("unit", [1_000, 1_000_000])
def test_instants_that_are_no_microseconds_are_rejected(unit):
    event = happening("purchase", ecommerce={"transaction_id": "T1"})
    coarse = event | {"event_timestamp": event["event_timestamp"] // unit}
    assert at.read_ga4(pd.DataFrame([coarse, event])).rejected["reason"].tolist() == [
        "event_timestamp is not a number of microseconds"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("wrapped", [False, True])
def test_parquet_gives_the_same_result_as_json(tmp_path, wrapped):
    files = []
    for day in DAYS:
        lines = rows(day)
        for line in lines:
            if wrapped:
                # BigQuery writes repeated fields like this unless list inference is on.
                line["event_params"] = {"list": [{"element": each} for each in line["event_params"]]}
            for each in line["event_params"] if not wrapped else ():
                if "int_value" in each["value"]:
                    each["value"]["int_value"] = int(each["value"]["int_value"])
        path = tmp_path / f"{day.stem}.parquet"
        pa.parquet.write_table(pa.Table.from_pylist(_squared(lines)), path)
        files.append(path)
    read, expected = at.read_ga4(files), at.read_ga4(DAYS)
    pd.testing.assert_frame_equal(read.interactions, expected.interactions)
    pd.testing.assert_frame_equal(read.events, expected.events)
    pd.testing.assert_frame_equal(read.hits, expected.hits)


def _squared(lines):
    """Give every line the members that any has, as Arrow takes the type of a struct from the first ones."""
    members = dict.fromkeys(name for line in lines for name in line)
    return [{name: line.get(name) for name in members} for line in lines]


@pytest.mark.slow
def test_frames_give_the_same_result_as_json():
    frame = pd.DataFrame.from_records([line for day in DAYS for line in rows(day)])
    read, expected = at.read_ga4(frame), at.read_ga4(DAYS)
    pd.testing.assert_frame_equal(read.interactions, expected.interactions)
    pd.testing.assert_frame_equal(read.events, expected.events)


@pytest.mark.large
@pytest.mark.slow
def test_overlapping_days_are_deduplicated():
    twice = at.read_ga4([*DAYS, *DAYS])
    once = at.read_ga4(DAYS)
    pd.testing.assert_frame_equal(twice.interactions, once.interactions)
    pd.testing.assert_frame_equal(twice.events, once.events)
    pd.testing.assert_frame_equal(twice.hits, once.hits)
    assert len(twice.rejected) == 2 * len(once.rejected)


@pytest.mark.large
@pytest.mark.slow
def test_revenue_needs_a_currency():
    events = pd.DataFrame(
        {
            "event_timestamp": [1735725600000000],
            "event_name": ["purchase"],
            "user_pseudo_id": ["a.1"],
            "event_params": [None],
            "ecommerce": [{"transaction_id": "T1", "purchase_revenue": 5.0}],
        }
    )
    unknown = at.read_ga4(events)
    assert unknown.events["statistics.revenue"].tolist() == [5.0]
    assert unknown.notes == ("1 conversion with revenue of an unknown currency",)
    events_read = at.read_ga4(events, currency="SEK").events
    assert events_read[["statistics.revenue.amount", "statistics.revenue.currency"]].to_numpy().tolist() == [
        [5.0, "SEK"]
    ]
    with pytest.raises(
        errors.InvalidRequest, match="currency: 'krona' is not allowed; expected a currency of ISO 4217"
    ):
        at.read_ga4(events, currency="krona")
    small = events.assign(event_params=[[{"key": "currency", "value": {"string_value": "sek"}}]])
    assert at.read_ga4(small).events["statistics.revenue.currency"].tolist() == ["SEK"]
    in_usd = events.assign(ecommerce=[{"purchase_revenue": 5.0, "purchase_revenue_in_usd": 4.6}])
    events_read = at.read_ga4(in_usd).events
    assert events_read[["statistics.revenue.amount", "statistics.revenue.currency"]].to_numpy().tolist() == [
        [4.6, "USD"]
    ]


def test_the_first_session_without_a_source_has_that_of_the_user():
    def params(session, number):
        return [
            {"key": "ga_session_id", "value": {"int_value": session}},
            {"key": "ga_session_number", "value": {"int_value": number}},
        ]

    events = pd.DataFrame(
        {
            "event_timestamp": [1735725600000000, 1735812000000000],
            "event_name": ["page_view", "page_view"],
            "user_pseudo_id": ["a.1", "a.1"],
            "event_params": [params(1735725600, 1), params(1735812000, 2)],
            "traffic_source": [{"source": "bing", "medium": "organic", "name": "(organic)"}] * 2,
        }
    )
    assert at.read_ga4(events).interactions["nodeId"].tolist() == ["organic-search/bing", "direct"]


def happening(name, second=1735725600, *, session=1735725600, number=2, texts=None, **columns):
    """An event at a second, 10:00 on the 1st of January 2025 by default, in a session of its own."""
    params = [
        {"key": "ga_session_id", "value": {"int_value": session}},
        {"key": "ga_session_number", "value": {"int_value": number}},
        *({"key": key, "value": {"string_value": text}} for key, text in (texts or {}).items()),
    ]
    known = {"event_timestamp": second * 1_000_000, "event_name": name, "user_pseudo_id": "a.1"}
    return known | {"event_params": params} | columns


def test_the_revenue_of_a_purchase_goes_before_the_value_of_its_event():
    order = {"transaction_id": "T1", "purchase_revenue": 80.0, "purchase_revenue_in_usd": 88.0}
    # With the shipping, which is no revenue.
    texts = {"value": "95.5", "currency": "EUR"}
    events = at.read_ga4(pd.DataFrame([happening("purchase", texts=texts, ecommerce=order)])).events
    assert events["statistics.revenue.amount"].tolist() == [80.0]
    assert events["statistics.revenue.currency"].tolist() == ["EUR"]


EURO = {"currency": "EUR"}


def order(name, amount, second=1735725600, **columns):
    ecommerce = {"transaction_id": name, "purchase_revenue": amount}
    columns = {"texts": EURO, "event_bundle_sequence_id": name} | columns
    return happening("purchase", second, ecommerce=ecommerce, **columns)


def refund(name, *, amount=None, second=1735800000, texts=EURO, session=1735800000, **columns):
    return happening("refund", second, session=session, texts=texts,
                     ecommerce={"transaction_id": name, "refund_value": amount}, **columns)  # fmt: skip


def test_refunds_are_subtracted_from_their_transaction():
    happened = [
        *(order(name, amount) for name, amount in zip("ABCD", (80.0, 50.0, 30.0, 20.0), strict=True)),
        refund("A", amount=15.0), refund("A", amount=5.0, second=1735800001),
        # All of it, in another currency, of an order of other days, and of nothing.
        refund("B", second=1735800002), refund("C", amount=7.0, second=1735800003, texts={"currency": "SEK"}),
        refund("Z", amount=9.0, second=1735800004), refund("D", amount=0.0, second=1735800005),
    ]  # fmt: skip
    with pytest.warns(errors.InputWarning) as caught:
        journeys = at.read_ga4(pd.DataFrame(happened))
    net = journeys.events.set_index("event.sourceId")["statistics.revenue.amount"]
    assert net.to_dict() == {"A": 60.0, "B": 0.0, "C": 30.0, "D": 20.0}
    assert journeys.notes == (
        "3 refunds subtracted from the revenue",
        "1 refund not subtracted, since no conversion has the transaction, such as 'Z'. Read the days of the "
        "orders as well",
        "1 refund not subtracted, since the order is in another currency, such as 'C'. Pass them to "
        "journeys.paths as adjustments, with in_currency and rates",
    )
    assert {f"exports: {note}" for note in journeys.notes} <= {str(each.message) for each in caught}
    assert journeys.refunds.to_numpy().tolist() == [["A", -20.0], ["B", -50.0]]


@pytest.mark.parametrize("wrap", [list, lambda items: {"list": [{"element": item} for item in items]}])
def test_items_have_the_amount_of_a_refund_without_a_value(wrap):
    items = wrap([{"item_refund": 30.0, "item_refund_in_usd": 33.0}, {"item_refund": "20"}, {"price": 7.0}])
    in_dollars = wrap([{"item_refund_in_usd": 40.0}])
    happened = [
        order("A", 200.0),
        order("B", 100.0, texts={"currency": "USD"}),
        order("C", 9.0),
        refund("A", items=items),
        refund("B", items=in_dollars, second=1735800001),
        refund("C", amount=1.0, second=1735800002),
    ]
    journeys = at.read_ga4(pd.DataFrame(happened))
    net = journeys.events.set_index("event.sourceId")["statistics.revenue.amount"]
    assert net.to_dict() == {"A": 150.0, "B": 60.0, "C": 8.0}


def test_refunds_are_no_visits():
    mail = {"source": "news", "medium": "email"}
    happened = [happening("session_start", texts=mail), order("A", 80.0),
                refund("A", amount=10.0), refund("A", amount=5.0, second=1735811000, session=1735725600)]  # fmt: skip
    sessions = at.read_ga4(pd.DataFrame(happened)).interactions
    assert sessions["nodeId"].tolist() == ["news/email"]
    assert sessions["endDate"].tolist() == [pd.Timestamp("2025-01-01T10:00:00Z")]
    # A later file with the refund alone has no session in place of the one of the order.
    assert at.read_ga4(pd.DataFrame(happened[3:])).interactions.empty


def test_refunds_above_their_order_are_named():
    read = at.read_ga4(pd.DataFrame([order("A", 100.0), refund("A", amount=130.0)]))
    assert read.events["statistics.revenue.amount"].tolist() == [-30.0]
    assert read.notes[1] == (
        "1 conversion with refunds above the revenue, which is then below 0, such as 'A': 130.00 of 100.00"
    )


@pytest.mark.slow
def test_refunds_are_not_subtracted_twice_in_silence():
    journeys = at.read_ga4(pd.DataFrame([order("A", 200.0), order("B", 50.0), refund("A", amount=50.0)]))
    again = pd.DataFrame({"event_id": ["A"], "date": ["2025-01-09"], "value": [-50.0]})
    with pytest.warns(
        errors.InputWarning, match="adjustments: 1 row below 0 of conversions whose refunds.*'A'"
    ):
        assert at.attribute(journeys.paths(adjustments=again), "linear")["value"].sum() == 150.0
    assert (
        at.attribute(journeys.paths(adjustments=again.assign(event_id="B")), "linear")["value"].sum() == 150.0
    )


def test_other_orders_of_one_transaction_are_named():
    happened = [order("A", 100.0), order("A", 100.0, 1735812000), order("B", 7.0),
                order("C", 20.0), order("C", 30.0, 1735812000),
                order("D", 20.0), order("D", 20.0, 1735812000, user_pseudo_id="b.2")]  # fmt: skip
    journeys = at.read_ga4(pd.DataFrame(happened))
    assert journeys.events["statistics.revenue.amount"].sum() == 147.0
    assert journeys.repeated == 3
    assert journeys.notes == (
        "2 conversions left out, with the id of an earlier one but another user or amount, such as 'C'. Give "
        "every conversion an id of its own",
    )


def test_revenue_that_is_in_usd_only_is_taken():
    order = {"transaction_id": "T1", "purchase_revenue_in_usd": 4.6}
    event = happening("purchase", texts={"currency": "EUR"}, ecommerce=order)
    with pytest.warns(errors.InputWarning, match="1 conversion with revenue in USD, since"):
        events = at.read_ga4(pd.DataFrame([event])).events
    assert events["statistics.revenue.amount"].tolist() == [4.6]
    assert events["statistics.revenue.currency"].tolist() == ["USD"]


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("session", "start"),
    [
        (1735725590, "2025-01-01T09:59:50Z"),
        # A day before is the farthest that a session may have begun; other ids are no seconds.
        (1735639200, "2024-12-31T10:00:00Z"),
        (1735639199, "2025-01-01T10:00:00Z"),
        (7, "2025-01-01T10:00:00Z"),
        (1735725601, "2025-01-01T10:00:00Z"),
    ],
)
def test_a_session_began_in_the_second_that_is_its_id_if_that_can_be(session, start):
    sessions = at.read_ga4(pd.DataFrame([happening("page_view", session=session)])).interactions
    assert sessions["startDate"].tolist() == [pd.Timestamp(start)]


@pytest.mark.slow
def test_a_referrer_that_is_to_be_ignored_is_no_source():
    texts = {"source": "partner.example", "medium": "referral"}
    for ignored, node in (({"ignore_referrer": "true"}, "direct"), ({}, "referral/partner.example")):
        events = pd.DataFrame([happening("page_view", texts=texts | ignored)])
        assert at.read_ga4(events).interactions["nodeId"].tolist() == [node]


def test_purchases_without_an_id_are_several():
    order = {"transaction_id": "(not set)", "purchase_revenue": 5.0}
    happened = [
        happening("purchase", second, texts={"currency": "EUR"}, ecommerce=order)
        for second in (1735725600, 1735725660)
    ]
    journeys = at.read_ga4(pd.DataFrame(happened))
    assert len(journeys.events) == 2
    assert journeys.repeated == 0


@pytest.mark.slow
def test_a_device_of_two_users_belongs_to_neither():
    hour = 3_600
    visits = [
        happening("page_view", 1735725600 + number * hour, session=1735725600 + number * hour, user_id=user)
        for number, user in enumerate(["anna", "ben", None])
    ]
    assert at.read_ga4(pd.DataFrame(visits)).interactions["userId"].nunique() == 3
    # Where one user was seen on it, the visit without a name is that user's.
    assert at.read_ga4(pd.DataFrame([visits[0], visits[2]])).interactions["userId"].nunique() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"traffic": "first"}, "traffic: 'first' is not allowed"),
        ({"conversions": []}, "conversions: at least one event name is required"),
        ({"conversions": ["?"]}, "conversions: '.' is not allowed"),
        (
            {"conversions": ["a b", "a_b"]},
            "conversions: 'a_b' and another name both have the reference 'a_b'",
        ),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        at.read_ga4(DAYS, **arguments)


def test_nothing_to_read():
    with pytest.raises(errors.InvalidRequest, match="exports: there is nothing to read"):
        at.read_ga4([])
    with pytest.raises(errors.InvalidRequest, match="exports: .*missing.json' does not exist"):
        at.read_ga4(DATA / "missing.json")
    with pytest.raises(
        errors.InvalidRequest, match="data' is a folder; allowed: a list of its files, such as"
    ):
        at.read_ga4(DATA)


def test_files_of_other_kinds_are_refused():
    flat = pd.DataFrame({"event_timestamp": [1], "event_name": ["purchase"], "session": [2]})
    with pytest.raises(
        errors.InvalidRequest,
        match="exports 1 has no column event_params or ga_session_id or param_ga_session_id; its columns: "
        "event_timestamp, event_name, session",
    ):
        at.read_ga4(flat)
    with pytest.raises(
        errors.InvalidRequest, match="orders.csv has no column event_timestamp or timestamp, "
    ):
        at.read_ga4([*DAYS, DATA / "orders.csv"])
    # A day on which nothing happened.
    assert at.read_ga4(flat.iloc[:0]).counts == {"interactions": 0, "events": 0}


@pytest.mark.slow
@pytest.mark.parametrize("written", ["[{'key': 'ga_session_id'}]", '{"ga_session_id": 1}', "1"])
def test_parameters_in_another_format_are_rejected(written):
    event = {"event_timestamp": 1735725600000000, "event_name": "purchase", "user_pseudo_id": "a.1"}
    rejected = at.read_ga4(pd.DataFrame([event | {"event_params": written}])).rejected
    assert rejected["reason"].tolist() == ["event_params is not a list of keys and values"]


def test_column_names_ignore_case():
    event = {"event_timestamp": 1735725600000000, "event_name": "purchase", "user_pseudo_id": "a.1"}
    session = [{"key": "ga_session_id", "value": {"int_value": 1735725600}}]
    frame = pd.DataFrame([event | {"event_params": session}])
    expected, found = at.read_ga4(frame), at.read_ga4(frame.rename(columns=str.upper))
    assert len(found.interactions) == 1
    pd.testing.assert_frame_equal(found.interactions, expected.interactions)
    pd.testing.assert_frame_equal(found.events, expected.events)


@pytest.mark.large
@pytest.mark.slow
def test_days_without_a_conversion_have_no_paths():
    with pytest.warns(errors.InputWarning, match="no event has the name 'sign_up_of_nobody'. .*page_view"):
        journeys = at.read_ga4(DAYS, conversions="sign_up_of_nobody")
    for event_type in (None, "sign_up_of_nobody"):
        assert journeys.paths(event_type=event_type).to_pandas().empty


@pytest.mark.parametrize("names", ["utm_{}", "session_{}", "manual_{}", "collected_traffic_source_manual_{}"])
def test_flattened_traffic_sources_are_found(names):
    columns = {names.format(name): value for name, value in [("source", "google"), ("medium", "cpc")]}
    if "manual" in names:
        columns[names.format("campaign_name")] = "spring"
    else:
        columns[names.format("campaign")] = "spring"
    first = {"traffic_source_source": "bing", "traffic_source_medium": "organic"}
    frame = pd.DataFrame(
        [{"event_timestamp": 1735725600000000, "event_name": "page_view", "user_pseudo_id": "a",
          "ga_session_id": 1735725600, "ga_session_number": 2, **first, **columns}]
    )  # fmt: skip
    assert at.read_ga4(frame).interactions["nodeId"].tolist() == ["google/cpc/spring"]


def test_families_of_columns_are_not_mixed():
    frame = pd.DataFrame(
        [{"event_timestamp": 1735725600000000, "event_name": "page_view", "user_pseudo_id": "a",
          "ga_session_id": 1735725600, "source": "newsletter", "utm_source": "google", "utm_medium": "cpc"}]
    )  # fmt: skip
    assert at.read_ga4(frame).interactions["nodeId"].tolist() == ["newsletter"]


@pytest.mark.slow
@pytest.mark.parametrize("column", ["purchase_revenue", "value", "ecommerce_purchase_revenue_in_usd"])
def test_revenue_that_is_no_number_is_rejected(column):
    row = {"event_timestamp": 1735725600000000, "user_pseudo_id": "a", "ga_session_id": 1735725600}
    row |= {"event_name": "purchase", "currency": None if "usd" in column else "EUR"}
    frame = pd.DataFrame([row | {column: "120,5", "transaction_id": "1"},
                          row | {column: "7.5", "transaction_id": "2", "event_timestamp": 1735725700000000},
                          row | {"event_name": "page_view", column: "x"}])  # fmt: skip
    journeys = at.read_ga4(frame)
    assert journeys.events["statistics.revenue.amount"].tolist() == [7.5]
    assert journeys.rejected[["row", "reason"]].to_numpy().tolist() == [
        [0, "the revenue of a conversion is not a number: '120,5'"]
    ]


def _events(*named, device="a.1", at_second=1740823200):
    """Events of one device at one instant: their name and their ecommerce record."""
    session = {"key": "ga_session_id", "value": {"int_value": 1740823200}}
    source = {"key": "source", "value": {"string_value": "google"}}
    return pd.DataFrame(
        [
            {"event_timestamp": at_second * 1_000_000, "event_name": name, "user_pseudo_id": device,
             "event_params": [session, source], "ecommerce": record}
            for name, record in named
        ]
    )  # fmt: skip


def test_transactions_of_one_instant_are_told_apart():
    """A batch has one time: 10 + 20 + 5, of which 3 and 5 are given back."""
    sold = [("purchase", {"transaction_id": f"T{number}", "purchase_revenue": amount})
            for number, amount in enumerate([10.0, 20.0, 5.0])]  # fmt: skip
    given = [("refund", {"transaction_id": "T1", "refund_value": 3.0}), ("refund", {"transaction_id": "T2"})]
    events = _events(("session_start", None), *sold, *given)
    journeys = at.read_ga4(pd.concat([events, events]), currency="EUR")
    assert sorted(journeys.events["statistics.revenue.amount"]) == [0.0, 10.0, 17.0]
    assert len(journeys.refunds) == 2


def test_revenue_without_a_currency_has_the_one_that_is_passed():
    events = _events(("session_start", None), ("purchase", {"transaction_id": "T1", "purchase_revenue": 18.0,
                                                            "purchase_revenue_in_usd": 20.0}))  # fmt: skip
    credits = at.attribute(at.read_ga4(events, currency="EUR").paths(), "linear")
    assert credits[["value", "currency"]].to_numpy().tolist() == [[18.0, "EUR"]]
    credits = at.attribute(at.read_ga4(events).paths(), "linear")
    assert credits[["value", "currency"]].to_numpy().tolist() == [[20.0, "USD"]]
