"""Asks every route that writes while no file may grow: run by ``test_full_disk.py``.

Takes the folder; prints the status of each request before, during and after that, as JSON.
"""

import json
import resource
import sys
from contextlib import closing
from pathlib import Path

from support.http_caller import Caller, ask_token, read_key, token_of
from support.order_events import declare_order
from support.service_records import send

from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

PROJECT = "/api/v1/projects/shop"
UNLIMITED = resource.RLIM_INFINITY
USER = {"email": "anna@example.com"}
SEEN_OFTEN = {
    "type": "counters",
    "field": "interactionCount",
    "operatorType": "number",
    "operator": "greaterThanOrEquals",
    "value": 5,
}


def requests(number: int) -> dict:
    """Return requests that write something new each time: method, path and body, by name."""
    event = {"projectId": "shop", "eventType": "order", "data": {"mail": "anna@example.com"}}
    id = f"00000000-0000-7000-8000-{number:012}"
    visitor = {"projectId": "shop", "trackerId": f"t{number}"}
    day = f"2025-01-{number:02}T00:00:00Z"
    return {
        "event": ("POST", "/api/v1/events", {**event, "nonce": f"a{number}"}),
        "synchronous event": ("POST", "/api/v1/events/sync", {**event, "nonce": f"b{number}"}),
        "batch": ("POST", "/api/v1/events/batch", [{**event, "nonce": f"c{number}"}]),
        "hit": ("POST", "/c", {**visitor, "pageUrl": "https://shop.example/", "hitId": id}),
        "opportunity": ("POST", "/show", {**visitor, "holdout": "banner", "opportunityId": id}),
        "event type": (
            "POST",
            f"{PROJECT}/event-types",
            {"reference": f"type{number}", "name": "Type", "fields": [], "metadata": {}},
        ),
        "audience": (
            "POST",
            f"{PROJECT}/audiences",
            {"name": f"Audience {number}", "condition": SEEN_OFTEN},
        ),
        "settings": ("PATCH", f"{PROJECT}/settings", {"retentionDurationInDays": 400 + number}),
        "holdout": ("PUT", f"{PROJECT}/holdouts/new{number}", {"nodeId": "ads", "share": 0.5}),
        "rates": ("PUT", f"{PROJECT}/rates", [{"currency": "NOK", "date": day, "rate": number}]),
        "interaction": (
            "POST",
            f"{PROJECT}/interactions/offline",
            {"date": day, "userData": USER, "nodeData": {"vendorId": "ads", "campaignSlug": f"s{number}"}},
        ),
        "campaign": (
            "POST",
            f"{PROJECT}/custom-ads/ads/campaigns",
            {"name": f"Campaign {number}", "campaignSlug": f"slug{number}"},
        ),
        "compaction": ("POST", f"{PROJECT}/compact", None),
        "backup": ("GET", f"{PROJECT}/backup", None),
    }


def main(folder: Path) -> dict:
    with closing(Service.open("shop", folder / "shop.duckdb")) as service:
        declare_order(service)
        send(service, "create_integration", vendor_id="ads", name="Ads")
        send(service, "create_holdout", holdout="banner", node_id="ads", share=0.5)
    key = create_key(folder, folder / "key.json", projects=["shop"])
    statuses: dict[str, dict[str, list]] = {}
    with running(folder, options=ServerOptions(rate_limits=None)) as url:
        caller = Caller(url, token_of(url, key))
        for number, phase in enumerate(("before", "full", "after"), start=1):
            limit = 1 if phase == "full" else UNLIMITED
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, UNLIMITED))
            for name, (method, path, body) in requests(number).items():
                reply = caller(method, path, body, User_Agent="Firefox")
                statuses.setdefault(name, {})[phase] = [reply.status, reply.headers.get("Retry-After")]
            reply = ask_token(Caller(url), read_key(folder / "key.json"))
            statuses.setdefault("token", {})[phase] = [reply.status, reply.headers.get("Retry-After")]
        resource.setrlimit(resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
    return statuses


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
