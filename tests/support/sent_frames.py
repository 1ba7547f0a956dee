"""Frames to send, a project that takes them, and a transport that ends the run at a request."""

import threading

import pandas as pd

import attrib_ds as at
from attrib_ds import Project
from attrib_ds.errors import NotFound
from attrib_ds.records.frames import TEXT

FIELDS = [
    {"type": "email", "entity": "user", "storageKey": "email"},
    {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True},
    {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None},
    {"type": "state", "entity": "event", "storageKey": "paid", "ingestionKey": None},
]


def prepare(path):
    """Make a project with an event type, an integration and a campaign."""
    with at.connect("my-shop", path=path) as project:
        project.send("create_integration", vendor_id="ads", name="Ads", currency="EUR")
        at.create_event_type(project, "order", name="Order", fields=FIELDS)
        at.create_campaign(project, "ads", "spring", name="Spring")


def orders(count, *, spoiled=True):
    """Return orders; by default the second is invalid and the third is refused."""
    frame = pd.DataFrame(
        {
            "eventDate": "2025-03-01T12:00:00Z",
            "data.orderId": [f"order-{number}" for number in range(count)],
            "data.email": [f"person-{number}@example.com" for number in range(count)],
        }
    )
    if spoiled and count > 2:
        frame.loc[1, "data.email"] = "nobody"
        frame["data.weight"] = 1.5
        frame.loc[2, "data.weight"] = float("inf")
    return frame


def campaign(project):
    return at.list_campaigns(project, "ads")["id"].item()


def spent(project, *amounts):
    """Return what was spent; equal amounts are outlays of their own."""
    days = {"startDate": "2025-03-03T00:00:00Z", "endDate": "2025-03-10T00:00:00Z"}
    return pd.DataFrame({"campaignId": campaign(project), "amount": amounts, **days})


def calls(count):
    frame = pd.DataFrame({"externalId": [f"call-{number}" for number in range(count)]}, dtype=TEXT)
    frame["date"] = "2025-01-31T12:00:00Z"
    frame["userData.email"] = [f"person-{number}@example.com" for number in range(count)]
    frame["nodeData.vendorId"] = "ads"
    frame["nodeData.campaignSlug"] = "spring"
    return frame


def updates(ids, key="won"):
    """Return three updates of each event, the last of which counts."""
    frame = pd.DataFrame({"id": [id for id in ids for _ in range(3)]}, dtype=TEXT)
    frame["storageKey"] = key
    frame["value"] = [0, 1, 1 if key == "won" else 0] * len(ids)
    frame["date"] = ["2025-03-02T12:00:00Z", "2025-03-03T12:00:00Z", "2025-03-04T12:00:00Z"] * len(ids)
    return frame


class Interrupted(BaseException):
    """Stands for the end of the process."""


class Watching:
    """Hands requests to a transport, notes them, and ends the run before or after one of them."""

    def __init__(self, inner, *, before=None, after=None, error=Interrupted):
        self.inner, self.before, self.after, self.error = inner, before, after, error
        self.sent = []
        self.lock = threading.Lock()

    @property
    def address(self):
        return self.inner.address

    @property
    def timezone(self):
        return self.inner.timezone

    def send(self, operation, request):
        if operation.name.startswith("list_"):
            return self.inner.send(operation, request)
        with self.lock:
            self.sent.append(operation.name)
            number = len(self.sent)
        if number == self.before:
            raise self.error
        try:
            answer = self.inner.send(operation, request)
        except NotFound:
            # To ask in vain whether several events are taken at once changes nothing.
            with self.lock:
                self.sent.remove(operation.name)
            raise
        if number == self.after:
            raise self.error
        return answer

    def tables(self):
        return self.inner.tables()

    def close(self):
        self.inner.close()


def watched(project, **moment):
    return Project(project.project_id, Watching(project.transport, **moment))
