"""Tables of one's own engine have the columns and types that attribution reads."""

from __future__ import annotations

import ibis
import pandas as pd
import pyarrow as pa
import pytest

import attrib_ds as at
from attrib_ds.errors import InputWarning, InvalidRequest

COLUMNS = {
    "_id": "string",
    "userId": "string",
    "nodeId": "string",
    "startDate": "timestamp",
    "isBot": "boolean",
}


def opened(**types):
    engine = ibis.duckdb.connect()
    engine.create_table("visits", schema=ibis.schema(COLUMNS | types))
    events = {"_id": "string", "userId": "string", "eventType": "string", "eventDate": "timestamp"}
    engine.create_table("orders", schema=ibis.schema(events))
    return at.open_tables(engine, interactions="visits", events="orders")


@pytest.mark.parametrize(
    ("column", "kind", "allowed"),
    [("startDate", "string", "timestamp"), ("userId", "timestamp", "text"), ("isBot", "string", "flag")],
)
def test_a_column_of_another_type_is_refused(column, kind, allowed):
    with pytest.raises(InvalidRequest, match=f"the column {column} holds {kind}.*; allowed: {allowed}$"):
        opened(**{column: kind})


def test_columns_of_the_types_are_read():
    assert at.list_nodes(opened(startDate="date", userId="int64")).empty


def with_rows(users, currencies, amounts=None):
    """Open a visit of each user at noon, and an order of each user an hour later, of 10 by default."""
    engine, noon = ibis.duckdb.connect(), pd.Timestamp("2025-01-01 12:00")
    ids = [str(number) for number in range(len(users))]
    visits = {"_id": ids, "userId": pa.array(users, pa.string()), "nodeId": "ads", "startDate": noon}
    orders = {"_id": ids, "userId": pa.array(users, pa.string()), "eventType": "order"}
    orders |= {"eventDate": noon + pd.Timedelta("1h"), "statistics.turnover.currency": currencies}
    visits, orders = (
        pa.Table.from_pandas(pd.DataFrame(rows), preserve_index=False) for rows in (visits, orders)
    )
    # Arrow keeps NaN, of which pandas makes nulls.
    amounts = pa.array([10.0] * len(users) if amounts is None else amounts)
    engine.create_table("visits", visits)
    engine.create_table("orders", orders.append_column("statistics.turnover", amounts))
    return at.open_tables(engine, interactions="visits", events="orders")


@pytest.mark.few(2)
@pytest.mark.parametrize("user", [None, "", "(Not Set)", "undefined", "0000000000000000"])
def test_g250_users_who_stand_for_nobody_are_not_one_person(user):
    said = "interactions: 2 rows without 'userId': they are in no path"
    with (
        pytest.warns(InputWarning, match=said),
        pytest.warns(InputWarning, match="events: 2 rows without 'userId': as conversions they are unattr"),
    ):
        tables = with_rows(["ann", user, user], ["EUR"] * 3)
    paths = at.conversion_paths(tables, event_type="order", statistic="turnover")
    credits = at.attribute(paths, "linear").set_index("node_id")["value"]
    assert (credits["ads"], credits.sum()) == (10.0, 30.0)


def test_g255_currencies_of_tables_are_compared_without_regard_to_case():
    paths = at.conversion_paths(
        with_rows(["ann", "ben", "cleo"], ["eur", "EUR", "usd"]), event_type="order", statistic="turnover"
    )
    credits = at.attribute(paths, "linear").set_index("currency")["value"]
    assert credits.to_dict() == {"EUR": 20.0, "USD": 10.0}
    with pytest.raises(
        InvalidRequest, match="'statistics.turnover.currency' is not a currency.*'Euro' of _id '1'"
    ):
        with_rows(["ann", "ben"], ["EUR", "Euro"])


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        ("12,5", "events: the column 'statistics.turnover' holds string; allowed: numbers"),
        (1e18, r"its 'statistics.turnover' is beyond 1e\+18 in size.*of _id '0'"),
    ],
)
def test_g251_amounts_that_are_text_or_too_large_are_refused_in_words(amount, said):
    with pytest.raises(InvalidRequest, match=said):
        with_rows(["ann"], ["EUR"], [amount])


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), float("-inf")])
def test_g251_amounts_that_are_no_numbers_are_refused_with_an_id(amount):
    said = (
        r"events: 2 rows are not allowed: their 'statistics.turnover' is not finite.*for example.* of _id '1'"
    )
    with pytest.raises(InvalidRequest, match=said):
        with_rows(["ann", "ben", "cleo"], ["EUR"] * 3, [1.0, amount, amount])
