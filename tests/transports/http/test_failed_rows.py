"""Rows that a service failed to take are sent again when it is well, by their nonces."""

import json

import pandas as pd
import pytest
from support.scripted_service import RESET, Reply

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.transports.http.retrying import Patience

DATE = "2025-01-31T12:00:00Z"
ROWS = pd.DataFrame({"eventDate": DATE, "data.orderId": range(600), "data.amount": 1.5})
TOO_MANY = Reply(429, {"message": "Too Many Requests"}, {"Retry-After": "300"})
#: What may pass; the last one carries the request out and tells nobody.
PASSING = {
    "reset": RESET,
    "slow": TOO_MANY,
    "busy": Reply(503, {"message": "later"}),
    "broken": Reply(500, {"message": "Internal server error"}),
    "cut": Reply(body=[{"id": "x"}], cut=3),
    "html": Reply(502, b"<title>Bad Gateway</title>", media="text/html"),
    "silent": Reply(body=[{"id": "x"}], cut=3, after="silence"),
}


class Keeping:
    """Takes events in one request, one per nonce, unless it is told to answer otherwise."""

    def __init__(self):
        self.ids = {}
        self.requests = []
        self.replies = {}

    def __call__(self, asked):
        events = json.loads(asked.body)
        events = events if isinstance(events, list) else events["events"]
        self.requests.append(len(events))
        reply = self.replies.get(len(self.requests))
        if reply is not None and reply.status not in (429, 503):
            self.answer(events)
        return reply or Reply(202, body=self.answer(events))

    def answer(self, events):
        for event in events:
            self.ids.setdefault(event["nonce"], f"e{len(self.ids)}")
        return [{"statusCode": 202, "id": self.ids[event["nonce"]]} for event in events]


@pytest.fixture
def keeping(service):
    service.script = [Keeping()]
    return service.script[0]


def send(shop, **how):
    return at.send_events(shop, ROWS, event_type="order", nonce_columns=["data.orderId"], wait=False, **how)


@pytest.mark.parametrize("kind", PASSING)
def test_each_row_is_stored_once_when_the_service_is_well_again(open_shop, keeping, kind):
    shop = open_shop(patience=Patience(attempts=1), read_timeout=0.3)
    keeping.replies = {2: PASSING[kind]}
    told = send(shop)
    assert told["status"].tolist() == ["accepted"] * 500 + ["failed"] * 100
    again = at.retry_failed(open_shop(), ROWS, told)
    assert again["status"].tolist() == ["accepted"] * 600
    assert keeping.requests == [500, 100, 100]
    assert again["id"].is_unique
    assert len(keeping.ids) == 600


@pytest.mark.parametrize("kind", PASSING)
def test_where_nothing_came_back_the_error_has_the_frame(open_shop, keeping, kind):
    shop = open_shop(patience=Patience(attempts=1), read_timeout=0.3)
    keeping.replies = {1: PASSING[kind]}
    with pytest.raises(errors.AttribError) as caught:
        send(shop)
    assert caught.value.partial["status"].tolist() == ["failed"] * 500 + ["unsent"] * 100
    again = at.retry_failed(open_shop(), ROWS, caught.value.partial)
    assert again["status"].tolist() == ["accepted"] * 600
    assert len(keeping.ids) == 600


def test_no_request_is_spent_on_asking_whether_several_are_taken(shop, keeping):
    send(shop)
    assert keeping.requests == [500, 100]
