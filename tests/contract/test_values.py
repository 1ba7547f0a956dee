from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from attrib_ds.contract import OPERATIONS, Request, from_wire
from attrib_ds.json_numbers import exact_number

#: Numbers whose conversion takes minutes, or has no end.
EXTREME = [
    exact_number(text)
    for text in ("1e999999999", "-1e999999999", "1e-999999999", "1e99999999999999999999", "0e999999999")
]

Ask = Callable[..., Request]
Refusal = Callable[..., str]

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        "2025-01-01T00:00:00Z",
        "2025-01-01T00:00:00",
        "2025-01-01T02:00:00+02:00",
        "2024-12-31T12:30:00-11:30",
        "2025-01-01 00:00:00z",
        datetime(2025, 1, 1),
        datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        pd.Timestamp("2025-01-01"),
        np.datetime64("2025-01-01T00:00:00"),
    ],
)
def test_instants_are_one_instant_in_utc(ask: Ask, written: object) -> None:  # R009, R010, R011
    since = ask("search_interactions", since=written).since
    assert since == NEW_YEAR
    assert since.tzinfo is UTC


@pytest.mark.parametrize(
    "refused",
    [
        "2025-01-01",
        "2025-02-30T00:00:00",
        "2025-13-01T00:00:00Z",
        "yesterday",
        "",
        1735689600,
        [],
        {},
        date(2025, 1, 1),
        True,
        pytest.param("9" * 10_000_000, id="long"),
    ],
)
def test_what_is_no_instant_is_refused(refusal: Refusal, refused: object) -> None:  # R013, G-039
    message = refusal("search_interactions", since=refused)
    assert message.startswith("since: ")
    assert len(message) < 1_000


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2025-01-01T02:00:00 02:00", NEW_YEAR),
        ("2025-01-01T02:00:00+02:00", NEW_YEAR),
        ("2025-01-01T00:00:00", NEW_YEAR),
        ("2025-01-01 02:00:00 02:00", NEW_YEAR),
    ],
)
def test_a_blank_before_an_offset_in_a_query_is_a_plus(written: str, read: datetime) -> None:  # G-040
    operation = OPERATIONS["list_trashed_events"]
    assert from_wire(operation, path={"projectId": "shop"}, query={"since": written}).since == read


def test_a_blank_before_an_offset_in_a_body_is_none(refusal: Refusal) -> None:
    assert refusal("search_interactions", since="2025-01-01T02:00:00 02:00").startswith("since: ")


@pytest.mark.parametrize(
    "accepted",
    [0, 1, 10**12, np.int64(5), 2.0, np.float64(2), Decimal("2.0"), Decimal("1e0"), Decimal("1e17")],
)
def test_limits_accepted(ask: Ask, accepted: int) -> None:  # G-101, G-221
    limit = ask("search_interactions", limit=accepted).limit
    assert limit == accepted
    assert type(limit) is int


@pytest.mark.parametrize(
    "refused",
    [-1, -1.0, 1.5, True, "10", [1], 2**63, float("nan"), Decimal("1.5"), Decimal("1e18"), *EXTREME],
)
@pytest.mark.parametrize("name", ["offset", "limit"])
def test_limits_refused(refusal: Refusal, name: str, refused: object) -> None:  # R130
    assert refusal("search_interactions", **{name: refused}).startswith(f"{name}: ")


def test_nothing_given_is_the_default(ask: Ask) -> None:  # R131, R151, R152
    request = ask("search_interactions")
    assert (request.offset, request.limit, request.filtered, request.isBot) == (0, None, False, False)
    assert request == ask("search_interactions", offset=None, limit=None, since=None, sort=None)


@pytest.mark.parametrize(("given", "held"), [(True, True), (False, False), (None, None), (np.True_, True)])
def test_populations_have_three_states(ask: Ask, given: object, held: bool | None) -> None:  # R151 to R153
    assert ask("search_interactions", filtered=given).filtered is held
    assert ask("interaction_insights", bots=given).isBot is held


@pytest.mark.parametrize("refused", [0, 1, "true", "", "both", []])
def test_populations_refuse_what_is_no_flag(refusal: Refusal, refused: object) -> None:
    assert refusal("search_interactions", bots=refused).startswith("bots: ")


@pytest.mark.parametrize(
    ("query", "attribute", "held"),
    [
        ({"attributable": "true"}, "attributable", True),
        ({"attributable": "false"}, "attributable", False),
        ({"limit": "10"}, "limit", 10),
        ({"offset": "007"}, "offset", 7),
        ({"order": "DESC"}, "order", "DESC"),
        ({}, "limit", None),
    ],
)
def test_query_texts_are_read(receive: Ask, query: dict[str, str], attribute: str, held: object) -> None:
    assert getattr(receive("list_user_events", query=query), attribute) == held


@pytest.mark.parametrize(
    "query",
    [
        {"attributable": "True"},
        {"attributable": "1"},
        {"attributable": ""},
        {"limit": "-1"},
        {"limit": "1.0"},
        {"limit": "ten"},
        {"limit": ""},
        pytest.param({"limit": "9" * 5_000}, id="long"),
        {"limit": ["1", "2"]},
        {"order": "desc"},
        {"order": "-1"},
        {"sort": "date"},
        {"since": "2025-01-01"},
    ],
)
def test_query_texts_are_refused(bad_request: Refusal, query: dict[str, str]) -> None:  # R130, G-098
    assert bad_request("list_user_events", query=query).startswith(f"{next(iter(query))}: ")


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (12, "12"),
        (0, "0"),
        (0.1, "0.1"),
        (12.5, "12.5"),
        (Decimal("1.500000000"), "1.5"),
        (Decimal("999999999999999999.999999"), "999999999999999999.999999"),
        (0.000001, "0.000001"),
        (np.int64(3), "3"),
        (np.float32(0.1), "0.1"),
        (Decimal("-0.0"), "0"),
        (Decimal("1E+3"), "1000"),
    ],
)
def test_amounts_are_exact_decimals(ask: Ask, given: object, held: str) -> None:  # G-042
    amount = ask("update_event_statistic", value=given).value
    assert isinstance(amount, Decimal)
    assert amount == Decimal(held)


@pytest.mark.parametrize(
    "refused",
    [
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("-Infinity"),
        Decimal("sNaN"),
        10**18,
        -(10**18),
        pytest.param(10**5_000, id="huge"),
        1e18,
        1e-7,
        Decimal("0.0000001"),
        Decimal("1E+999999"),
        Decimal("1E-999999"),
        "12",
        True,
        None,
        [],
        {"amount": 1, "currency": "EUR"},
    ],
)
def test_amounts_refused(refusal: Refusal, refused: object) -> None:  # R225, G-042
    assert refusal("update_event_statistic", value=refused).startswith("value: ")


@pytest.mark.parametrize(
    ("given", "held"), [(0, 0), (1, 1), (np.int64(1), 1), (1.0, 1), (Decimal("1.0"), 1), (Decimal("0e5"), 0)]
)
def test_state_values_accepted(ask: Ask, given: object, held: int) -> None:
    value = ask("update_event_state", value=given).value
    assert value == held
    assert type(value) is int


@pytest.mark.parametrize("refused", [2, -1, 0.5, "1", True, False, None, Decimal("0.1"), [1], *EXTREME])
def test_state_values_refused(refusal: Refusal, bad_request: Refusal, refused: object) -> None:  # R220
    assert refusal("update_event_state", value=refused).startswith("value: ")
    assert bad_request("update_event_state", body={"value": refused}).startswith("/value: ")


def test_a_state_without_a_value_is_refused(bad_request: Refusal) -> None:
    assert bad_request("update_event_state", body={}) == "/value: is required"


@pytest.mark.parametrize("accepted", ["Europe/Paris", "UTC", "America/New_York"])
def test_time_zones_accepted(ask: Ask, accepted: str) -> None:  # G-108
    assert ask("interaction_insights", timezone=accepted).timezone == accepted


@pytest.mark.parametrize("refused", ["Paris", "Europe", "../../etc/passwd", "", 2, "+02:00", "a\x00b"])
def test_time_zones_refused(refusal: Refusal, refused: object) -> None:
    assert refusal("interaction_insights", timezone=refused).startswith("timezone: ")


@pytest.mark.parametrize("direction", [-1.0, Decimal("-1.0"), Decimal("-1e0")])
def test_directions_may_have_a_decimal_point(ask: Ask, direction: object) -> None:  # G-221
    order = ask("search_interactions", sort={"startDate": direction}).sort
    assert order == {"startDate": -1}
    assert type(order["startDate"]) is int


def test_sort_keeps_its_order(ask: Ask) -> None:  # R148, G-097
    order = ask("search_interactions", sort={"geo.city": 1, "startDate": -1}).sort
    assert list(order.items()) == [("geo.city", 1), ("startDate", -1)]


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        ({"startDate": 0}, "0 is not a direction for startDate"),
        ({"startDate": True}, "True is not a direction for startDate"),
        ({"startDate": Decimal("-1.5")}, "-1.5 is not a direction for startDate"),
        ({"startDate": EXTREME[0]}, "1e999999999 is not a direction for startDate"),
        ({"startDate": "DESC"}, "'DESC' is not a direction for startDate"),
        ({"startdate": 1}, "(did you mean 'startDate'?)"),
        ({"geo": 1}, "cannot sort by 'geo'"),
        ({"userData": 1}, "cannot sort by 'userData'"),
        ({1: 1}, "cannot sort by 1"),
        ("startDate", "'startDate' is not allowed"),
        (["startDate"], "['startDate'] is not allowed"),
    ],
)
def test_sort_refused(refusal: Refusal, refused: object, told: str) -> None:
    message = refusal("search_interactions", sort=refused)
    assert message.startswith("sort: ")
    assert told in message
