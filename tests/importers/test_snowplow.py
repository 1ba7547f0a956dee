"""Enriched events of Snowplow; the expected values are worked out from the file by hand."""

from pathlib import Path

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.records.snowplow_events import FIELDS

FILE = Path(__file__).parent / "data" / "enriched-good"
BOOTS = "google/cpc/spring///hiking boots"

# pandas 2 warns when table() adds a column; many of the exports here are a single view.
pytestmark = pytest.mark.filterwarnings(
    "ignore:DataFrame is highly fragmented",
    "ignore::attrib_ds.errors.InputWarning",
    "ignore::attrib_ds.errors.RejectedRows",
)


def table():
    """The events as rows of the table: typed instants, each entity in a column of its own."""
    lines = [line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines()]
    rows = [[cell or None for cell in line] for line in lines if len(line) == len(FIELDS)]
    columns = dict(zip(FIELDS, (list(cells) for cells in zip(*rows, strict=True)), strict=True))
    for name in ("collector_tstamp", "derived_tstamp"):
        columns[name] = pd.to_datetime(columns[name])
    columns["contexts_com_snowplowanalytics_snowplow_ecommerce_transaction_1"] = [
        [{"transaction_id": "O-2", "revenue": 20.5, "currency": "USD"}] if each else None
        for each in columns.pop("contexts")
    ]
    columns["contexts_com_iab_snowplow_spiders_and_robots_1"] = [
        [{"spider_or_robot": True, "category": "SPIDER_OR_ROBOT"}] if each else None
        for each in columns.pop("derived_contexts")
    ]
    return pd.DataFrame(columns)


def test_the_format_has_its_131_fields():
    assert len(FIELDS) == 131
    assert (FIELDS[6], FIELDS[47], FIELDS[59], FIELDS[123]) == (
        "event_id",
        "mkt_medium",
        "tr_orderid",
        "domain_sessionid",
    )


def test_sessions_have_the_source_of_their_first_view():
    sessions = at.read_snowplow(FILE).interactions
    assert sessions["nodeId"].tolist() == [
        "direct",
        BOOTS,
        "direct",
        "organic-search/Google",
        "organic-social/Facebook",
    ]
    assert sessions["isBot"].tolist() == [True, False, False, False, False]
    # The ping came before the view, and tells nothing of where the session came from.
    assert sessions["startDate"].astype(str).tolist()[1] == "2025-01-01 09:59:58+00:00"
    assert sessions["geo.countryCode"].tolist() == ["DE"] * 5
    assert sessions["userId"].nunique() == 3


def test_credits_of_orders():
    journeys = at.read_snowplow(FILE)
    assert journeys.events["event.sourceId"].tolist() == ["O-1", "O-2"]
    credits = at.attribute(journeys.paths(), "linear")
    found = {(row.node_id, row.currency): (row.conversions, row.value) for row in credits.itertuples()}
    assert found == {
        (BOOTS, "EUR"): (0.5, 25.0),
        ("organic-search/Google", "EUR"): (0.5, 25.0),
        ("direct", "USD"): (0.5, 10.25),
        ("organic-social/Facebook", "USD"): (0.5, 10.25),
    }


@pytest.mark.slow
def test_without_stitching_devices_are_kept_apart():
    apart = at.read_snowplow(FILE, stitch=False)
    # Who signed in during a session is meant by all of it; here both sessions have the user.
    assert apart.interactions["userId"].nunique() == 3
    frame = table()
    frame.loc[frame["domain_userid"] == "d2", "user_id"] = None
    assert at.read_snowplow(frame, stitch=False).interactions["userId"].nunique() == 4


@pytest.mark.slow
def test_table_rows_give_the_same_result_as_files():
    read, expected = at.read_snowplow(table()), at.read_snowplow(FILE)
    pd.testing.assert_frame_equal(read.interactions, expected.interactions)
    pd.testing.assert_frame_equal(read.events, expected.events)
    pd.testing.assert_frame_equal(read.hits, expected.hits)


@pytest.mark.slow
def test_parquet_gives_the_same_result_as_frames(tmp_path):
    table().to_parquet(tmp_path / "events.parquet")
    read, expected = at.read_snowplow(tmp_path / "events.parquet"), at.read_snowplow(FILE)
    pd.testing.assert_frame_equal(read.interactions, expected.interactions)
    pd.testing.assert_frame_equal(read.events, expected.events)


def test_page_views_keep_their_ids():
    journeys = at.read_snowplow(FILE)
    assert len(journeys.hits) == 6
    # The pipeline delivers at least once.
    assert journeys.hits["id"].is_unique


def test_a_view_that_came_twice_is_one():
    event = {"event_id": "1", "event_name": "page_view", "domain_userid": "d", "domain_sessionidx": 1}
    event |= {"collector_tstamp": "2025-01-01 10:00:00.000"}
    journeys = at.read_snowplow(pd.DataFrame([event, event]))
    assert len(journeys.hits) == 1
    assert journeys.interactions["hitCount"].tolist() == [1]


def test_invalid_rows_are_rejected_with_a_reason():
    rejected = at.read_snowplow(FILE).rejected
    assert rejected[["row", "reason"]].to_numpy().tolist() == [
        [12, "3 cells where an enriched event has 131"],
        [13, "domain_userid, network_userid and user_id are missing"],
    ]


def test_a_missing_file_is_refused():
    with pytest.raises(errors.InvalidRequest, match="events: .*nothing' does not exist"):
        at.read_snowplow(FILE.parent / "nothing")


@pytest.mark.parametrize(
    ("columns", "node"),
    [
        ({"mkt_clickid": "Cj0K", "mkt_network": "Google"}, "google/cpc"),
        ({"mkt_campaign": "spring"}, "(not set)//spring"),
        ({"refr_medium": "unknown", "refr_urlhost": "forum.example"}, "referral/forum.example"),
        ({"refr_medium": "email", "refr_source": "Gmail"}, "Gmail/email"),
        ({"refr_medium": "internal", "refr_urlhost": "shop.example"}, "direct"),
        ({}, "direct"),
    ],
)
def test_the_source_of_a_view(columns, node):
    event = {"event_id": "1", "event_name": "page_view", "domain_userid": "d", "domain_sessionidx": 1}
    frame = pd.DataFrame([event | {"collector_tstamp": "2025-01-01 10:00:00.000"} | columns])
    assert at.read_snowplow(frame).interactions["nodeId"].tolist() == [node]


@pytest.mark.parametrize(
    ("columns", "orders"),
    [
        ({"br_type": "Browser"}, ["T1"]),
        ({"br_type": "Robot"}, []),
        ({"contexts_com_iab_snowplow_spiders_and_robots_1": [{"spider_or_robot": True}]}, []),
    ],
)
def test_what_a_robot_orders_is_no_conversion(columns, orders):
    event = {"event_id": "1", "event_name": "transaction", "domain_userid": "d", "domain_sessionidx": 1}
    event |= {"collector_tstamp": "2025-01-01 10:00:00.000", "tr_orderid": "T1"}
    journeys = at.read_snowplow(pd.DataFrame([event | columns]))
    assert journeys.events["event.sourceId"].tolist() == orders
    assert journeys.interactions["isBot"].tolist() == [not orders]


@pytest.mark.slow
def test_column_names_ignore_case():
    expected, found = (at.read_snowplow(each) for each in (table(), table().rename(columns=str.upper)))
    assert len(found.events)
    pd.testing.assert_frame_equal(found.interactions, expected.interactions)
    pd.testing.assert_frame_equal(found.events, expected.events)


def test_files_without_events_are_refused(tmp_path):
    with pytest.raises(
        errors.InvalidRequest, match="has no column true_tstamp or derived_tstamp or collector_"
    ):
        at.read_snowplow(table().drop(columns=["derived_tstamp", "collector_tstamp", "true_tstamp"]))
    with pytest.raises(
        errors.InvalidRequest, match="orders.csv has no column event_id, event_name or event, "
    ):
        at.read_snowplow(FILE.parent / "orders.csv")
    with pytest.raises(errors.InvalidRequest, match="events: .* is a folder; allowed: a list of its files"):
        at.read_snowplow(tmp_path)


def test_an_export_without_conversions_names_the_events_that_it_has():
    expected = (
        "no event has the name 'transaction'. Names in the data: page_view .2., link_click .1.. "
        r'Choose among them with conversions=\["NAME"\]'
    )
    ids = ["11111111-1111-4111-8111-11111111111" + digit for digit in "123"]
    events = pd.DataFrame(
        {
            "event_id": ids,
            "event_name": ["page_view", "link_click", "page_view"],
            "domain_userid": "d",
            "domain_sessionid": "s",
            "derived_tstamp": pd.to_datetime("2025-01-01 10:00"),
        }
    )
    with pytest.warns(errors.InputWarning, match=expected) as caught:
        assert at.read_snowplow(events).events.empty
    assert caught[0].filename == __file__
    assert len(at.read_snowplow(events, conversions=["link_click"]).events) == 1
