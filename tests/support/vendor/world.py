"""Seeded data of a project, kept in memory as the specification's records; date-times are instants in UTC."""

import re
import tomllib
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from random import Random
from uuid import UUID

SERVICE = tomllib.loads((Path(__file__).parent / "service.toml").read_text(encoding="utf-8"))
SAMPLES = SERVICE["samples"]
AGGREGATES = {"sum": sum, "count": len, "average": lambda v: sum(v) / max(len(v), 1), "min": min, "max": max}
ENDS = {"first": lambda v: v[0] if v else None, "last": lambda v: v[-1] if v else None}


class World:
    """The records of one project, by kind and id; `people` are users by email and tracker."""

    def __init__(self, project="my-shop", seed=1, users=40, ids="hex"):
        self.project, self.random, self.ids, self.count = project, Random(seed), ids, 10_000
        for kind in (*SERVICE["records"], "vendors", "nonces", "people"):
            setattr(self, kind, {})
        self.projects = {project: None}
        for given in SERVICE["event_types"]:
            self.add_event_types(given)
        for vendor, campaigns in SERVICE["campaigns"].items():
            node = {"nodeName": vendor, "vendorId": vendor, "integrationId": self.id("integration")}
            self.vendors[vendor] = self.add("nodes", node)
            for given in campaigns:
                campaign = self.add_campaigns(given | {"~vendorId": vendor})["id"]
                for outlay in SAMPLES["outlays"]:
                    self.add("outlays", outlay | {"~vendorId": vendor, "campaignId": campaign})
        self.add("nodes", {"nodeName": "direct"})
        for number in range(users):
            self.visit(number)

    def id(self, noun=""):
        """Return an id: a UUID, or 24 hexadecimal digits or, where it may be any string, the style chosen."""
        self.count += 1
        digits, strange = f"{self.random.getrandbits(96):024x}", f"{noun}/№ {self.count}?é%20&#'"
        styles = {"hex": digits, "numeric": str(self.count), "strange": strange}
        return str(UUID(int=int(digits, 16))) if noun == "uuid" else styles[self.ids if noun else "hex"]

    def add(self, kind, given, now=SAMPLES["start"]):
        """Store a record of a kind, with an id of its own and what all of them have."""
        like = SERVICE["records"][kind]
        record = dict.fromkeys(like.get("nulls", ())) | dict.fromkeys(like.get("stamps", ()), now)
        record |= {like["key"]: self.id(like.get("noun", "")), "projectId": self.project}
        if "~vendorId" in given:
            record["integrationId"] = self.vendors[given["~vendorId"]]["integrationId"]
        record |= like.get("defaults", {}) | given
        return getattr(self, kind).setdefault(record[like.get("by", like["key"])], record)

    def add_event_types(self, given, now=SAMPLES["start"]):
        """Store an event type."""
        fields = [SERVICE["field"] | {"ingestionKey": one["storageKey"]} | one for one in given["fields"]]
        known = {"~storageKeys": [one["storageKey"] for one in fields], "~archived": "archivedAt" in given}
        known |= {"~names": f"{given['reference']} {given['name']}", "fields": fields}
        return self.add("event_types", given | known, now)

    def add_campaigns(self, given, now=SAMPLES["start"]):
        """Store a campaign and its node."""
        record, vendor = self.add("campaigns", given, now), given["~vendorId"]
        node = {"nodeName": given["name"], "campaignId": record["id"], "~vendorId": vendor}
        self.add("nodes", node | {"parent": self.vendors[vendor]["nodeId"]})
        return record

    def visit(self, number):
        """Store a visitor with a journey of sessions, offline interactions and events."""
        random, email = self.random, f"user{number}@x.example"
        moment = SAMPLES["start"] + timedelta(days=7 * number % 31)
        for step, kind in enumerate(SAMPLES["journeys"][number % len(SAMPLES["journeys"])]):
            moment += timedelta(milliseconds=random.randint(1_000_000, 10 * 86_400_000))
            campaign = random.choice(list(self.campaigns.values()))
            given = {"nodeData": {"vendorId": campaign["~vendorId"], "campaignId": campaign["id"]}}
            given |= {"nonce": f"{number}-{step}", "eventType": kind, "trackerId": f"tracker-{number}"}
            data = {"firstName": f"Zoë O'Hara {step}", "turnover": random.randint(1_000, 30_000) / 100}
            data |= SAMPLES["data"] | {"mail": email if number % 7 else "none", "orderId": given["nonce"]}
            adding = {"session": self.add_session, "call": self.add_interactions}.get(kind, self.add_event)
            adding(given | {"data": data, "userData": {"email": email}}, moment)

    def user_of(self, email, tracker, now):
        """Return the user of an email or a tracker, or a new one, known by both from then."""
        user, trackers = self.people.get(email) or self.people.get(tracker), [tracker] if tracker else []
        user = user or self.add("users", {"fields": {}, "vendorUserIds": trackers}, now)["_id"]
        self.people |= {name: user for name in (email, tracker) if name}
        return user

    def add_interaction(self, user, node, dates, given):
        """Store an interaction of a user with a node; `dates` are those of its hits."""
        start, end, before = dates[0], dates[-1], [one["userId"] for one in self.interactions.values()]
        known = {"userId": user, "userLifetimeIndex": before.count(user) + 1, "nodeId": node["nodeId"]}
        known |= {"startDate": start, "endDate": end, "duration": (end - start).total_seconds()}
        known |= {"integrationId": node.get("integrationId"), "rawUserData": given["userData"]}
        return self.add("interactions", known | given, end)

    def add_session(self, given, start):
        """Store a session with its hits."""
        drawn = {name: self.random.choice(values) for name, values in SAMPLES["sessions"].items()}
        node, page = self.random.choice(list(self.nodes.values())), drawn["firstPageUrl"]
        hit = {name: drawn[name] for name in ("geo", "asn", "isBot", "referrerType")} | {"pageUrl": page}
        hit |= {"userAgent": drawn["userAgent"]["ua"], "sessionId": self.id()}
        dates = [start + timedelta(seconds=41.5 * number) for number in range(drawn["hitCount"])]
        hits = [self.add("hits", hit | {"serverDate": date}) for date in dates]
        self.hits |= {one["id"]: one | {"~firstHitId": hits[0]["id"]} for one in hits}
        drawn |= {"firstHitId": hits[0]["id"], "firstPage": page["origin"] + page["pathname"]}
        drawn |= drawn.pop("traffic") | {"_id": hit["sessionId"], "type": "session"}
        drawn["userData"] = {"vendorUserId": given["trackerId"]}
        self.add_interaction(self.user_of(None, given["trackerId"], start), node, dates, drawn)

    def add_interactions(self, given, now):
        """Store an offline interaction under the node that its data name."""
        data, identity, date = given["nodeData"], given.get("userData") or {}, given.get("date") or now
        nodes = {one.get("campaignId"): one for one in self.nodes.values()}
        node = nodes.get(data.get("campaignId") or "", self.vendors[data["vendorId"]])
        record = {"type": "offline", "userData": identity, "rawNodeData": data, "createdAt": now}
        return self.add_interaction(self.user_of(identity.get("email"), None, now), node, [date], record)

    def add_event(self, given, now):
        """Process an event: store it as sent and as computed or trashed, and return its id."""
        reference, date, id_ = given["eventType"], given.get("eventDate") or now, self.id("uuid")
        sent = {name: given.get(name) for name in ("nonce", "eventType", "trackerId", "data")}
        self.nonces[given["nonce"]] = self.add("raw_events", sent | {"_id": id_}, now)["_id"]
        type_ = self.event_types.get(reference, {"fields": [], "~archived": True})
        values = [(field, given["data"].get(field["ingestionKey"])) for field in type_["fields"]]
        errors = [{"type": "invalid-field", "field": f, "value": v} for f, v in values if not accepts(f, v)]
        if type_["~archived"] or errors:
            trashed = {"_id": id_, "errors": errors, "processingDate": now, "rawEventDate": date}
            trashed |= {"eventTypeId": type_.get("_id"), "eventTypeRef": reference}
            return self.add("trashed_events", trashed)["_id"]
        types = {one["storageKey"]: one["type"] for one in type_["fields"] if one["entity"] == "event"}
        event = {"_id": id_, "eventDate": date, "eventType": reference, "~types": types, "~metrics": {}}
        event |= {"user": {}, "event": {}}
        for field, value in values:
            if value is not None or field["type"] == "state":
                event[field["entity"]][field["storageKey"]] = dated(field["type"], value or 0, date)
        email = event["user"].get("email", {}).get("current")
        event["userId"] = self.user_of(email, given.get("trackerId"), now)
        for key, value in event["user"].items():
            held = self.users[event["userId"]]["fields"].setdefault(key, [])
            if value["current"] not in [one["current"] for one in held]:
                held.append(value | {"discriminant": False, "from": {"type": "event", "id": id_}})
        event = self.add("events", event | {"attributable": bool(given.get("trackerId"))}, now)
        for key, value in ({"event-count": dated("number", 1, date)} | event["event"]).items():
            self.set_metric(event, key, value["type"], value["raw"], date, now)
        return id_

    def set_metric(self, event, key, kind, value, date, now):
        """Set a state or a statistic of an event, and the delay of a state; other kinds have no metrics."""
        metrics, known = event["~metrics"], {"eventId": event["_id"], "key": key, "~userId": event["userId"]}
        if kind in SERVICE["metrics"]:
            is_new, known["type"] = key not in metrics, SERVICE["metrics"][kind]
            amount = value["amount"] if isinstance(value, dict) else value
            value = {"amount": amount, "currency": "EUR"} if kind == "currency" else value
            metrics[key] = self.add("metrics", known, now) if is_new else metrics[key]
            metrics[key] |= {"data": dated(kind, value, date), "updatedAt": now, "~number": amount}
            if kind == "state" and (value or not is_new):
                seconds = (date - event["eventDate"]).total_seconds()
                self.set_metric(event, f"state-delay-{key}", "number", seconds, date, now)
        return metrics.get(key)

    def complete_users(self):
        """Return the records of all users by id, with counters; bots and filtered visits do not count."""
        rows = [*self.interactions.values(), *self.events.values()]
        rows = [one for one in rows if not one.get("isBot") and not one.get("~filtered")]
        rows.sort(key=lambda one: one.get("startDate") or one["eventDate"])
        rows = grouped((one["userId"], one) for one in rows)
        return {id_: user | counters(rows[id_]) for id_, user in self.users.items()}


def counters(rows):
    """Return what a user gathers from visits and events."""
    record, events = {}, [row for row in rows if "eventDate" in row]
    for name, (date, how, path) in SERVICE["counters"].items():
        record[name] = (AGGREGATES | ENDS)[how]([row.get(path, 0) for row in rows if date in row])
    dates = grouped((event["eventType"], event["eventDate"]) for event in events)
    types = {key: {"count": len(v), "firstDate": v[0], "lastDate": v[-1]} for key, v in dates.items()}
    record |= {"eventTypeMeta": types, "eventTypesCount": {key: len(v) for key, v in dates.items()}}
    metrics = [metric for event in events for metric in event["~metrics"].values()]
    values = grouped(((one["key"], one["type"]), one["~number"]) for one in metrics)
    sums = {key: {how: of(v) for how, of in AGGREGATES.items()} for key, v in values.items()}
    record["metrics"] = {key: found | {"type": type_} for (key, type_), found in sums.items()}
    return record | {"audienceIds": ["audience-buyers"] if events else []}


def grouped(pairs):
    """Return the values of each key."""
    groups = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def accepts(field, value):
    """Tell whether a field of an event type takes a value."""
    pattern = SERVICE["valid"].get(field["type"], ".+")
    return field["optional"] if value is None else bool(re.fullmatch(pattern, str(value), re.DOTALL))


def dated(kind, raw, date):
    """Return a value of a user field or a metric, raw and normalised."""
    current = {"email": str(raw).strip().lower(), "location": SAMPLES["location"]}.get(kind, raw)
    return SERVICE["dated"] | {"raw": raw, "current": current, "type": kind, "date": date}
