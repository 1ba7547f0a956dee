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


def test_instants_are_one_instant_in_utc(ask):
    for written in [
        "2025-01-01T00:00:00Z",
        "2025-01-01T00:00:00",
        "2025-01-01T02:00:00+02:00",
        "2024-12-31T12:30:00-11:30",
        "2025-01-01 00:00:00z",
        datetime(2025, 1, 1),
        datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        pd.Timestamp("2025-01-01"),
        np.datetime64("2025-01-01T00:00:00"),
    ]:
        since = ask("search_interactions", since=written).since
        assert since == NEW_YEAR, written
        assert since.tzinfo is UTC, written


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


def test_a_blank_before_an_offset_in_a_query_is_a_plus():
    for written, read in [
        ("2025-01-01T02:00:00 02:00", NEW_YEAR),
        ("2025-01-01T02:00:00+02:00", NEW_YEAR),
        ("2025-01-01T00:00:00", NEW_YEAR),
        ("2025-01-01 02:00:00 02:00", NEW_YEAR),
    ]:
        operation = OPERATIONS["list_trashed_events"]
        assert from_wire(operation, path={"projectId": "shop"}, query={"since": written}).since == read, (
            written,
            read,
        )


def test_a_blank_before_an_offset_in_a_body_is_none(refusal: Refusal) -> None:
    assert refusal("search_interactions", since="2025-01-01T02:00:00 02:00").startswith("since: ")


def test_limits_accepted(ask):
    for accepted in [
        0,
        1,
        10**12,
        np.int64(5),
        2.0,
        np.float64(2),
        Decimal("2.0"),
        Decimal("1e0"),
        Decimal("1e17"),
    ]:
        limit = ask("search_interactions", limit=accepted).limit
        assert limit == accepted, accepted
        assert type(limit) is int, accepted


def test_limits_refused(refusal):
    for name in ["offset", "limit"]:
        for refused in [
            -1,
            -1.0,
            1.5,
            True,
            "10",
            [1],
            2**63,
            float("nan"),
            Decimal("1.5"),
            Decimal("1e18"),
            *EXTREME,
        ]:
            assert refusal("search_interactions", **{name: refused}).startswith(f"{name}: "), (refused, name)


def test_nothing_given_is_the_default(ask: Ask) -> None:  # R131, R151, R152
    request = ask("search_interactions")
    assert (request.offset, request.limit, request.filtered, request.isBot) == (0, None, False, False)
    assert request == ask("search_interactions", offset=None, limit=None, since=None, sort=None)


@pytest.mark.parametrize(("given", "held"), [(True, True), (False, False), (None, None), (np.True_, True)])
def test_populations_have_three_states(ask: Ask, given: object, held: bool | None) -> None:  # R151 to R153
    assert ask("search_interactions", filtered=given).filtered is held
    assert ask("interaction_insights", bots=given).isBot is held


def test_populations_refuse_what_is_no_flag(refusal):
    for refused in [0, 1, "true", "", "both", []]:
        assert refusal("search_interactions", bots=refused).startswith("bots: "), refused


def test_query_texts_are_read(receive):
    for query, attribute, held in [
        ({"attributable": "true"}, "attributable", True),
        ({"attributable": "false"}, "attributable", False),
        ({"limit": "10"}, "limit", 10),
        ({"offset": "007"}, "offset", 7),
        ({"order": "DESC"}, "order", "DESC"),
        ({}, "limit", None),
    ]:
        assert getattr(receive("list_user_events", query=query), attribute) == held, (query, attribute)


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


def test_state_values_refused(refusal, bad_request):
    for refused in [2, -1, 0.5, "1", True, False, None, Decimal("0.1"), [1], *EXTREME]:
        assert refusal("update_event_state", value=refused).startswith("value: "), refused
        assert bad_request("update_event_state", body={"value": refused}).startswith("/value: "), refused


def test_a_state_without_a_value_is_refused(bad_request: Refusal) -> None:
    assert bad_request("update_event_state", body={}) == "/value: is required"


def test_time_zones_accepted(ask):
    for accepted in ["Europe/Paris", "UTC", "America/New_York"]:
        assert ask("interaction_insights", timezone=accepted).timezone == accepted, accepted


def test_time_zones_refused(refusal):
    for refused in ["Paris", "Europe", "../../etc/passwd", "", 2, "+02:00", "a\x00b"]:
        assert refusal("interaction_insights", timezone=refused).startswith("timezone: "), refused


def test_directions_may_have_a_decimal_point(ask):
    for direction in [-1.0, Decimal("-1.0"), Decimal("-1e0")]:
        order = ask("search_interactions", sort={"startDate": direction}).sort
        assert order == {"startDate": -1}, direction
        assert type(order["startDate"]) is int, direction


def test_sort_keeps_its_order(ask: Ask) -> None:  # R148, G-097
    order = ask("search_interactions", sort={"geo.city": 1, "startDate": -1}).sort
    assert list(order.items()) == [("geo.city", 1), ("startDate", -1)]


def test_sort_refused(refusal):
    for refused, told in [
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
    ]:
        message = refusal("search_interactions", sort=refused)
        assert message.startswith("sort: "), (refused, told)
        assert told in message, (refused, told)
