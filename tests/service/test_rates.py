"""What currencies are worth in the project's own (G-065, G-116)."""

from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from support.service_records import send, utc

from attrib_ds.errors import InvalidRequest
from attrib_ds.service import Service
from attrib_ds.service.outlays import in_project_currency


@pytest.fixture
def service():
    opened = Service.open("shop", ":memory:")
    yield opened
    opened.close()


def rate(currency, date, rate):
    return {"currency": currency, "date": date, "rate": rate}


def put(service, *rates):
    return send(service, "set_rates", rates=rates).value


def listed(service, **asked):
    return [tuple(row.values()) for row in send(service, "list_rates", **asked).read().to_pylist()]


def test_a_rate_of_the_same_currency_and_date_is_replaced(service):
    first = (rate("NOK", "2025-02-01", 0.09), rate("NOK", date(2025, 1, 1), Decimal("0.085")))
    assert put(service, *first, rate("DKK", utc(2025, 1, 1, 12), np.float64(0.13))) == 3
    assert put(service, *first) == 0
    changed = (rate("NOK", "2025-01-01", 1), rate("NOK", "2025-01-01T00:00:00Z", 0.08))
    assert put(service, *changed, rate("NOK", "2025-02-01", 0.09)) == 1
    assert listed(service) == [
        ("DKK", utc(2025, 1, 1, 12), 0.13),
        ("NOK", utc(2025, 1, 1), 0.08),
        ("NOK", utc(2025, 2, 1), 0.09),
    ]
    assert listed(service, currency="DKK") == [("DKK", utc(2025, 1, 1, 12), 0.13)]
    assert listed(service, currency="SEK") == []
    page = send(service, "list_rates", limit=1, offset=1)
    assert (page.total, page.read()["rate"].to_pylist()) == (3, [0.08])
    assert put(service) == 0


def test_g065_a_null_rate_removes_the_one_of_its_date(service):
    put(
        service,
        rate("NOK", "2025-01-01", 0.08),
        rate("NOK", "2025-02-01", 0.09),
        rate("DKK", "2025-01-01", 1),
    )
    removals = (rate("NOK", "2025-02-01", None), rate("SEK", "2025-01-01", None))
    assert put(service, *removals, rate("DKK", "2025-01-01", 2)) == 2
    assert listed(service) == [("DKK", utc(2025, 1, 1), 2), ("NOK", utc(2025, 1, 1), 0.08)]
    # Of two for one date the last one counts, whichever it is.
    assert put(service, rate("NOK", "2025-01-01", 0.07), rate("NOK", "2025-01-01", None)) == 1
    assert put(service, rate("NOK", "2025-01-01", None), rate("NOK", "2025-01-01", 0.06)) == 1
    assert listed(service, currency="NOK") == [("NOK", utc(2025, 1, 1), 0.06)]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (rate("nok", "2025-01-01", 1), "rates/1/currency"),
        (rate("EUR", "2025-01-01", 1), "rates/1/currency"),
        (rate("NOK", "yesterday", 1), "rates/1/date"),
        (rate("NOK", "1970-01-01", 1), "rates/1/date"),
        (rate("NOK", "2025-01-01", 0), "rates/1/rate"),
        (rate("NOK", "2025-01-01", float("nan")), "rates/1/rate"),
        (rate("NOK", "2025-01-01", True), "rates/1/rate"),
        (rate("NOK", "2025-01-01", 10**400), "rates/1/rate"),
        ({"currency": "NOK", "rate": 1}, "rates/1/date"),
        ({"currency": "NOK", "date": "2025-01-01"}, "rates/1/rate"),
    ],
)
def test_a_wrong_rate_is_named_and_nothing_is_stored(service, wrong, where):
    with pytest.raises(InvalidRequest, match=f"{where}: "):
        put(service, rate("NOK", "2025-01-01", 1), wrong)
    assert listed(service) == []


def test_g065_an_amount_is_converted_by_the_latest_rate_at_its_date(service):
    put(
        service,
        rate("NOK", "2025-01-01", 0.085),
        rate("NOK", "2025-03-01", 0.1),
        rate("USD", "2025-01-01", 9e17),
    )
    amounts = [
        ("before", "2024-12-31 23:59:59.999999", "200", "NOK"),
        ("at", "2025-01-01", "200", "NOK"),
        ("between", "2025-02-28", "0.000006", "NOK"),
        ("after", "2026-01-01", "7", "NOK"),
        ("own", "2020-01-01", "123456789012345678.123456", "EUR"),
        ("unknown", "2025-02-01", "1", "GBP"),
        ("too much", "2025-02-01", "10", "USD"),
        ("none", "2025-02-01", None, None),
    ]
    rows = ", ".join("(?, ?::TIMESTAMP, ?::DECIMAL(24, 6), ?)" for _ in amounts)
    insert = f"INSERT INTO metrics (_id, date, amount, currency) VALUES {rows}"
    values = [value for row in amounts for value in row]
    service._store.write(lambda connection: connection.execute(insert, values).fetchall())
    with service._store.read() as backend:
        metrics = backend.table("metrics")
        found = in_project_currency(backend, metrics, "EUR")
        assert found.columns == (*metrics.columns, "converted")
        converted = {row["_id"]: row["converted"] for row in found.to_pyarrow().to_pylist()}
    assert converted == {
        "before": None,
        "at": Decimal(17),
        "between": Decimal("0.000001"),
        "after": Decimal("0.7"),
        "own": Decimal("123456789012345678.123456"),
        "unknown": None,
        "too much": None,
        "none": None,
    }
