"""The same call after a failure sends every row again, and stores nothing twice."""

import json

import pandas as pd
import pytest
from support.scripted_service import RESET, Reply

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.transports.http.session import RetryPolicy

DATE = "2025-01-31T12:00:00Z"
ROWS = pd.DataFrame({"eventDate": DATE, "data.orderId": range(600), "data.amount": 1.5})
TOO_MANY = Reply(429, {"message": "Too Many Requests"}, {"Retry-After": "300"})
#: Transient failures; the last one carries the request out without answering.
TRANSIENT = {
    "reset": RESET,
    "slow": TOO_MANY,
    "busy": Reply(503, {"message": "later"}),
    "broken": Reply(500, {"message": "Internal server error"}),
    "cut": Reply(body=[{"id": "x"}], cut=3),
    "html": Reply(502, b"<title>Bad Gateway</title>", media="text/html"),
    "silent": Reply(body=[{"id": "x"}], cut=3, after="silence"),
}


class Store:
    """Stores events of batches, one per nonce, and answers as scripted."""

    def __init__(self):
        self.ids = {}
        self.requests = []
        self.replies = {}

    def __call__(self, request):
        events = json.loads(request.body)
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
def store(service):
    service.script = [Store()]
    return service.script[0]


def send(shop):
    return at.send_events(shop, ROWS, event_type="order", nonce_columns=["data.orderId"], wait=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRANSIENT)
def test_each_row_is_stored_once_when_the_service_is_back(open_shop, store, kind):
    store.replies = {2: TRANSIENT[kind]}
    sent = send(open_shop(retry_policy=RetryPolicy(attempts=1), read_timeout=0.3))
    assert sent["status"].tolist() == ["accepted"] * 500 + ["failed"] * 100
    again = send(open_shop())
    assert again["status"].tolist() == ["accepted"] * 600
    assert store.requests == [500, 100, 500, 100]
    assert again["id"].is_unique
    assert len(store.ids) == 600


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRANSIENT)
def test_if_nothing_was_accepted_the_error_has_the_frame(open_shop, store, kind):
    store.replies = {1: TRANSIENT[kind]}
    with pytest.raises(errors.AttribError) as caught:
        send(open_shop(retry_policy=RetryPolicy(attempts=1), read_timeout=0.3))
    assert caught.value.partial["status"].tolist() == ["failed"] * 500 + ["unsent"] * 100
    again = send(open_shop())
    assert again["status"].tolist() == ["accepted"] * 600
    assert len(store.ids) == 600


def test_no_request_is_spent_on_asking_whether_batches_are_supported(shop, store):
    send(shop)
    assert store.requests == [500, 100]
