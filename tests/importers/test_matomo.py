"""Visits of Matomo; the expected values are worked out from the file by hand."""

import json
from pathlib import Path

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import errors

# Many of the exports here are a single visit.
pytestmark = pytest.mark.filterwarnings(
    "ignore::attrib_ds.errors.InputWarning", "ignore::attrib_ds.errors.RejectedRows"
)

FILE = Path(__file__).parent / "data" / "last_visits_details.json"
NODES = [
    "(not set)/campaign/spring///boots",
    "organic-search/Google",
    "newsletter/email/january",
    "referral/hikers-forum.example",
    "direct",
]


def records():
    return json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_visits():
    journeys = at.read_matomo(FILE)
    visits = journeys.interactions
    assert visits["nodeId"].tolist() == NODES
    assert visits["startDate"].astype(str).tolist()[0] == "2025-01-01 10:00:00+00:00"
    assert visits["endDate"].astype(str).tolist()[0] == "2025-01-01 10:04:00+00:00"
    assert visits["hitCount"].tolist() == [2, 1, 1, 1, 1]
    assert visits["geo.countryCode"].tolist() == ["DE"] * 5
    # One visitor, and a user on two devices, one of them before the sign-in.
    assert visits["userId"].nunique() == 2
    assert at.read_matomo(FILE, stitch=False).interactions["userId"].nunique() == 3


def test_orders_and_goals_are_conversions():
    journeys = at.read_matomo(FILE)
    assert journeys.events["eventType"].tolist() == ["goal_4", "goal_5", "order", "order"]
    assert journeys.events["event.name"].tolist()[:2] == ["Newsletter signed", "Lead"]
    assert journeys.events["statistics.revenue.amount"].tolist()[1:] == [5.0, 30.0, 99.9]
    credits = at.attribute(journeys.paths(event_type="order"), "linear").set_index("node_id")
    assert credits["conversions"].to_dict() == pytest.approx(
        dict(zip(NODES, [1 / 2, 1 / 3, 1 / 3, 1 / 3, 1 / 2], strict=True))
    )
    assert credits["value"].to_dict() == pytest.approx(
        dict(zip(NODES, [49.95, 10.0, 10.0, 10.0, 49.95], strict=True))
    )
    assert set(credits["currency"]) == {"EUR"}


@pytest.mark.slow
def test_records_give_the_same_result_as_files(tmp_path):
    visits = records()
    lines = tmp_path / "visits.ndjson"
    lines.write_text("\n".join(json.dumps(visit) for visit in visits))
    expected = at.read_matomo(FILE)
    for given in (visits, lines, pd.DataFrame.from_records(visits), [FILE, lines]):
        read = at.read_matomo(given)
        pd.testing.assert_frame_equal(read.interactions, expected.interactions)
        pd.testing.assert_frame_equal(read.events, expected.events)
        pd.testing.assert_frame_equal(read.hits, expected.hits)


def test_the_latest_response_counts_for_a_visit():
    early, late = records()[0], records()[0]
    early["actionDetails"] = early["actionDetails"][:1]
    early["lastActionTimestamp"] -= 500
    for answers in ([early, late], [late, early]):
        journeys = at.read_matomo(answers)
        assert len(journeys.interactions) == 1
        assert journeys.events["event.sourceId"].tolist() == ["W-1"]


def visit_with(*actions):
    """A visit at 10:00 on the 1st of January 2025, with actions a minute later."""
    return {
        "idSite": 1,
        "idVisit": 7,
        "visitorId": "a1",
        "siteCurrency": "EUR",
        "firstActionTimestamp": 1735725600,
        "lastActionTimestamp": 1735725900,
        "referrerType": "direct",
        "actionDetails": [{"timestamp": 1735725660} | action for action in actions],
    }


def test_a_goal_without_revenue_has_no_value_and_an_order_of_nothing_has_one():
    goal = {"type": "goal", "goalId": 4, "goalName": "Lead", "revenue": "0"}
    order = {"type": "ecommerceOrder", "orderId": "T1", "revenue": "0"}
    events = at.read_matomo([visit_with(goal, order)]).events.set_index("eventType")
    assert events["statistics.revenue.amount"].isna().to_dict() == {"goal_4": True, "order": False}
    assert events["statistics.revenue.currency"].isna().to_dict() == {"goal_4": True, "order": False}
    assert events.loc["order", "statistics.revenue.amount"] == 0


def test_a_goal_is_reached_once_at_each_of_its_pages():
    pages = [
        {"type": "goal", "goalId": 4, "goalName": "Lead", "goalPageId": page} for page in ("p", "q", "p")
    ]
    journeys = at.read_matomo([visit_with(*pages)])
    assert len(journeys.events) == 2
    assert journeys.repeated == 1


def test_visits_of_two_sites_are_kept_apart():
    one, other = records()[0], records()[0] | {"idSite": "2"}
    assert at.read_matomo([one, other]).interactions["_id"].nunique() == 2


@pytest.mark.slow
def test_invalid_rows_are_rejected_with_a_reason():
    assert at.read_matomo(FILE).rejected[["row", "reason"]].to_numpy().tolist() == [
        [
            6,
            "firstActionTimestamp and serverTimestamp are not numbers of seconds; visitorId and userId are missing",
        ]
    ]
    visit = records()[0]
    del visit["actionDetails"][2]["timestamp"]
    reason = "action 3 of visit 1.103 (ecommerceOrder) has no timestamp in seconds"
    assert at.read_matomo([visit]).rejected["reason"].tolist() == [reason]


@pytest.mark.parametrize("unit", [1_000, 1_000_000])
def test_instants_that_are_no_seconds_are_rejected(unit):
    visit = records()[0]
    counts = {name: visit[name] * unit for name in ("firstActionTimestamp", "lastActionTimestamp")}
    assert at.read_matomo([visit | counts, records()[1]]).rejected["reason"].tolist() == [
        "firstActionTimestamp and serverTimestamp are not numbers of seconds"
    ]


def test_an_error_response_is_refused(tmp_path):
    path = tmp_path / "answer.json"
    path.write_text('[{"idVisit": 1}')
    with pytest.raises(errors.InvalidRequest, match="visits: .*answer.json' is not valid JSON"):
        at.read_matomo(path)
    refusal = {"result": "error", "message": "You can't access this resource"}
    with pytest.raises(
        errors.InvalidRequest, match="visits 1 has no column idVisit, .*; its columns: result, message"
    ):
        at.read_matomo([refusal])


@pytest.mark.parametrize("written", ["[{'type': 'action'}]", '{"type": "action"}', "1"])
def test_actions_in_another_format_are_rejected(written):
    visit = {**records()[0], "actionDetails": written}
    rejected = at.read_matomo([visit]).rejected
    assert rejected["reason"].tolist() == ["actionDetails is not a list of actions"]


def test_visits_without_conversions_name_the_types_of_their_actions():
    visit = records()[0] | {"actionDetails": [{"type": "search", "timestamp": 1735725600}]}
    expected = (
        "no action has the type 'ecommerceOrder' or 'goal'. Names in the data: search .1.. Define a goal"
    )
    with pytest.warns(errors.InputWarning, match=expected):
        at.read_matomo([visit])


def test_revenue_that_is_no_number_is_rejected():
    def order(number, revenue):
        return {"type": "ecommerceOrder", "orderId": number, "revenue": revenue, "timestamp": 1735725900}

    visit = {"idSite": 1, "idVisit": 7, "visitorId": "a1", "siteCurrency": "EUR",
             "firstActionTimestamp": 1735725600, "lastActionTimestamp": 1735725900,
             "referrerType": "direct", "actionDetails": [order("1", "120,5"), order("2", "7.5")]}  # fmt: skip
    journeys = at.read_matomo([visit])
    assert journeys.events["statistics.revenue.amount"].tolist() == [7.5]
    assert journeys.rejected["reason"].tolist() == [
        "action 1 of visit 1.7 (ecommerceOrder) has revenue that is not a number: '120,5'"
    ]
