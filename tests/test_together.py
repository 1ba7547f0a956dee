"""Rows that are sent from several threads."""

import threading
import time

import pandas as pd
import pytest

from attrib_ds.errors import InvalidRequest, ServiceFailure
from attrib_ds.together import send_together

INDEX = pd.RangeIndex(12)


def test_rows_of_one_key_keep_their_order_and_the_others_do_not_wait():
    order = []
    meet = threading.Barrier(3, timeout=10)

    def send(row):
        if row < 3:
            meet.wait()
        time.sleep(0.012 - row / 1_000)
        order.append(row)
        return "sent", str(row), None

    told = send_together(INDEX, [row % 3 for row in INDEX], send)
    assert told["id"].tolist() == [str(row) for row in INDEX]
    for key in range(3):
        assert [row for row in order if row % 3 == key] == [key, key + 3, key + 6, key + 9]


def test_a_failure_stops_what_was_not_sent_and_is_told():
    def send(row):
        if row == 1:
            raise InvalidRequest("value: is wrong")
        if row == 2:
            raise ServiceFailure("the disk is full")
        return "sent", str(row), None

    told = send_together(INDEX[:5], [1] * 5, send)
    assert told["status"].tolist() == ["sent", "rejected", "failed", "unsent", "unsent"]
    assert told["error"].tolist()[1:3] == ["value: is wrong", "the disk is full"]
    with pytest.raises(ServiceFailure, match="the disk is full"):
        send_together(INDEX[:2], [1] * 2, lambda row: send(row + 1))
