"""A project of eight users whom every key tells apart."""

from __future__ import annotations

import pytest
from support.service_records import hex_id, send, table, visit
from support.user_projects import declare, event

from attrib_ds.service import Service


def _orders():
    anna = {"email": "anna@x.org", "first_name": "Anna", "age": 30, "member": True}
    anna |= {"birthday": "1990-05-01T00:00:00.000Z"}
    yield event(1, 1, "2025-01-02T00:00:00Z", fields=anna, **_money(10, "EUR"), **{"states.confirmed": 1})
    again = {"email": "anna@work.org", "first_name": "anna", "age": 31}
    yield event(2, 1, "2025-01-05T00:00:00Z", fields=again, **_money(20, "EUR"), **{"states.confirmed": 0})
    ben = {"email": "ben@x.org", "first_name": "Ben", "age": 7, "member": False}
    yield event(3, 2, "2025-01-03T00:00:00Z", fields=ben, **{"statistics.items": 2})
    yield event(4, 3, "2025-01-04T00:00:00Z", fields={"first_name": "Émile", "age": 100}, **_money(5, "NOK"))
    yield event(5, 4, "2025-01-04T00:00:00Z", "lead", fields={"first_name": "ben"}, **{"states.converted": 1})
    yield event(6, 5, "2025-01-06T00:00:00Z", fields={"birthday": "1980-01-01T00:00:00.000Z"})


def _money(amount, currency):
    return {"statistics.turnover.amount": amount, "statistics.turnover.currency": currency}


def _visits():
    yield visit(1, userId=hex_id(1), startDate="2025-01-01T00:00:00Z", hitCount=3, geo__countryCode="FR")
    yield visit(2, userId=hex_id(1), startDate="2025-01-08T00:00:00Z", hitCount=1, geo__countryCode="DE")
    yield visit(
        3,
        userId=hex_id(6),
        startDate="2025-01-02T00:00:00Z",
        type="offline",
        userData='{"phone":"+33612345678"}',
    )
    yield visit(4, userId=hex_id(7), isBot=True, nodeId="letter", geo__countryCode="FR")
    yield visit(5, userId=hex_id(8), nodeId="letter", duration=9.0, userData='{"vendorUserId":"v8"}')


@pytest.fixture(scope="module")
def crowd():
    """Users 1 to 5 have events, 1 and 6 to 8 interactions; 7 is a bot."""
    service = Service.open("shop", ":memory:")
    declare(service)
    for resource, records in (("events", _orders()), ("interactions", _visits())):
        # Not every record has every column.
        answer = send(service, "load_records", resource=resource, source=table(*records))
        assert not answer.read().num_rows, answer.read().to_pylist()
    yield service
    service.close()


@pytest.fixture(scope="module")
def find_numbers(crowd):
    """Return the numbers of the users that a search finds, in order."""

    def find(**arguments):
        answer = send(crowd, "search_users", **({"fields": []} | arguments))
        return [int(value, 16) for value in answer.read()["_id"].to_pylist()]

    return find
