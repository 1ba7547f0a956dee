"""Nonces that are made: of key columns, or of what a row holds."""

import datetime
import hashlib

import numpy as np
import pandas as pd
import pytest

from attrib_ds import connect, create_event_type, get_raw_event, send_events
from attrib_ds.errors import InvalidRequest

DAY = "2025-01-31T12:00:00Z"


@pytest.fixture
def shop():
    with connect("my-shop", path=":memory:") as project:
        create_event_type(project, "order", name="Order")
        create_event_type(project, "lead", name="Lead")
        yield project


def nonces(project, rows, **arguments):
    sent = send_events(project, rows, **{"event_type": "order", **arguments})
    return [get_raw_event(project, id)["nonce"] for id in sent["id"]]


def test_a_nonce_is_a_hash_of_the_type_and_the_key(shop):
    rows = pd.DataFrame({"eventDate": DAY, "data.shop": ["oslo", "oslo"], "data.number": [17, 18]})
    # printf '["order", "oslo", "17"]' | sha256sum
    assert nonces(shop, rows, nonce_columns=["data.shop", "data.number"])[0] == (
        hashlib.sha256(b'["order", "oslo", "17"]').hexdigest()
    )


def test_the_same_key_in_another_form_is_the_same_key(shop):
    forms = [17, "17", 17.0, np.int64(17), np.float64(17.0)]
    found = {
        nonces(
            shop, pd.DataFrame({"number": pd.Series([form, "x"], dtype=object)}), nonce_columns=["number"]
        )[0]
        for form in forms
    }
    assert len(found) == 1
    large = [
        nonces(shop, pd.DataFrame({"number": pd.Series([form, "x"], dtype=object)}), nonce_columns=["number"])
        for form in (10**16, 1e16, "10000000000000000")
    ]
    assert large[0] == large[1] == large[2]
    days = [
        DAY,
        pd.Timestamp(DAY),
        np.datetime64("2025-01-31T12:00:00"),
        pd.Timestamp("2025-01-31T13:00+01:00"),
    ]
    told = [
        nonces(shop, pd.DataFrame({"day": pd.Series([day], dtype=object)}), nonce_columns=["day"])
        for day in [*days[1:], datetime.date(2025, 1, 31)]
    ]
    assert told[0] == told[1] == told[2] != told[3]


def test_what_is_beside_the_key_does_not_count_and_the_type_does(shop):
    first = pd.DataFrame({"eventDate": [DAY], "orderId": ["o-1"], "data.note": ["new"]})
    (nonce,) = nonces(shop, first, nonce_columns=["orderId"])
    changed = send_events(
        shop, first.assign(**{"data.note": "old"}), event_type="order", nonce_columns=["orderId"]
    )
    assert changed["status"].tolist() == ["rejected"]
    assert nonces(shop, first, event_type="lead", nonce_columns=["orderId"]) != [nonce]
    # A column that only makes the nonce is not sent.
    sent = send_events(shop, first, event_type="order", nonce_columns=["orderId"])
    assert get_raw_event(shop, sent["id"].item())["data"] == '{"note":"new"}'


def test_missing_and_repeated_keys_are_told_before_anything_is_sent(shop):
    rows = pd.DataFrame(
        {"eventDate": DAY, "shop": ["a", None, "a", "b"], "number": [1, 2, 1, None]}, index=list("wxyz")
    )
    with pytest.raises(InvalidRequest) as caught:
        send_events(shop, rows, event_type="order", nonce_columns=["shop", "number"])
    assert str(caught.value) == (
        "nonce_columns: must identify each row, so nothing was sent: row 'x': 'shop' is required; "
        "row 'y': duplicates row 'w'; row 'z': 'number' is required"
    )
    assert [each["row"] for each in caught.value.details] == ["x", "y", "z"]
    assert shop.send("list_trashed_events").total == 0
    told = send_events(shop, rows, event_type="order", nonce_columns=["shop", "number"], dry_run=True)
    assert told["status"].to_dict() == {"w": "valid", "x": "rejected", "y": "rejected", "z": "rejected"}
    assert told["error"]["y"] == "nonce_columns: duplicates row 'w'"
    many = pd.DataFrame({"eventDate": [DAY] * 9, "shop": "a"})
    with pytest.raises(InvalidRequest, match=r"row 5: .*; … \(8 rows in all; dry_run=True lists them\)$"):
        send_events(shop, many, event_type="order", nonce_columns=["shop"])


@pytest.mark.parametrize("columns", ["orderId", [], [1], [""]])
def test_columns_that_are_none_are_refused(shop, columns):
    rows = pd.DataFrame({"eventDate": [DAY], "orderId": ["o-1"]})
    with pytest.raises(InvalidRequest, match="nonce_columns: .* is not allowed; allowed: a list of one or"):
        send_events(shop, rows, event_type="order", nonce_columns=columns)


def test_columns_that_are_not_there_or_exclude_each_other_are_refused(shop):
    rows = pd.DataFrame({"eventDate": [DAY], "nonce": ["n"]})
    with pytest.raises(InvalidRequest, match="has no column 'data.orderId'"):
        send_events(shop, rows[["eventDate"]], event_type="order", nonce_columns=["data.orderId"])
    with pytest.raises(InvalidRequest, match="nonce_columns: cannot be combined with the column 'nonce'"):
        send_events(shop, rows, event_type="order", nonce_columns=["eventDate"])
    assert len(nonces(shop, rows[["eventDate"]], nonce_columns=["eventDate"])) == 1


def test_half_a_surrogate_pair_is_a_key_too(shop):
    rows = pd.DataFrame({"eventDate": [DAY] * 2, "key": pd.Series(["\ud800", "ü"], dtype=object)})
    assert len(set(nonces(shop, rows, nonce_columns=["key"]))) == 2
