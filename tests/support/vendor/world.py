"""Seeded data of a project, kept in memory as the specification's records; date-times are instants in UTC."""

import tomllib
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

SERVICE = tomllib.loads((Path(__file__).parent / "service.toml").read_text(encoding="utf-8"))
SAMPLES = SERVICE["samples"]
START, NOW = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 4, 1, tzinfo=UTC)
OPTIONAL = SERVICE["vocabulary"]["optional"]


class World:
    """The records of one project."""

    def __init__(self, project="my-shop", seed=1, users=40, ids="hex"):
        self.project, self.random, self.ids, self.count = project, Random(seed), ids, 10_000
        self.interactions, self.hits, self.users, self.events, self.raw_events = {}, {}, {}, {}, {}
        self.trashed_events, self.event_types, self.campaigns, self.outlays, self.nodes = {}, {}, {}, {}, {}
        self.nonces, self.people, self.vendors, self.complete = {}, {}, {}, None
        for given in SERVICE["event_types"]:
            self.add_type(given, START)
        self.event_types["old-form"]["archivedAt"] = NOW
        self.event_types["lead"]["phoneParsingConfig"] = [{"order": 0, "countryCode": "FR"}]
        for vendor, names in SERVICE["campaigns"].items():
            node = self.add_node(nodeName=vendor, vendorId=vendor)
            self.vendors[vendor] = {"integrationId": self.id("integration"), "node": node}
            for name in names:
                state = {"explicit": name != "Brand", "active": name != "Brand"}
                slug = name.lower().replace(" ", "-").replace("%", "")
                campaign = self.add_campaign(vendor, {"name": name, "campaignSlug": slug, **state}, START)
                for month in (1, 2, 3):
                    first, last = (datetime(2025, m, 1, tzinfo=UTC) for m in (month, month + 1))
                    amount = self.random.randint(1, 90_000) / 100
                    self.add_outlay(campaign, {"amount": amount, "startDate": first, "endDate": last}, START)
        self.add_node(nodeName="direct")
        for number in range(users):
            self.visit(number)

    def id(self, noun=""):
        """Return 24 hexadecimal digits or, where the specification says string, an id in the style chosen."""
        self.count += 1
        digits, strange = f"{self.random.getrandbits(96):024x}", f"{noun}/№ {self.count}?é%20&#'"
        return {"hex": digits, "numeric": str(self.count), "strange": strange}[self.ids if noun else "hex"]

    def uuid(self):
        """Return an id of an event or a hit."""
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def add(self, records, given, now, noun="", key="_id"):
        """Store a record under an id of its own."""
        stamps = {"projectId": self.project, "createdAt": now, "updatedAt": now}
        record = {key: self.id(noun), **stamps, **given}
        records[record[key]] = record
        return record

    def add_node(self, parent=None, **properties):
        """Store a node of the tree, which the interface does not show, and return its id."""
        node = self.id("node")
        self.nodes[node] = {"nodeId": node, "parent": parent, **properties}
        return node

    def add_type(self, given, now):
        """Store an event type."""
        fields = [SERVICE["field"] | {"ingestionKey": one["storageKey"]} | one for one in given["fields"]]
        record = {"archivedAt": None, "metadata": {}, "phoneParsingConfig": [], **given, "fields": fields}
        self.event_types[given["reference"]] = self.add({}, record, now, "type")
        return self.event_types[given["reference"]]

    def add_campaign(self, vendor, given, now):
        """Store a campaign and its node."""
        ids = {"integrationId": self.vendors[vendor]["integrationId"], "active": True, "explicit": True}
        record = self.add(self.campaigns, ids | given, now, "campaign", "id")
        self.add_node(self.vendors[vendor]["node"], nodeName=given["name"], campaignId=record["id"])
        return record

    def add_outlay(self, campaign, given, now):
        """Store an outlay."""
        ids = {"integrationId": campaign["integrationId"], "campaignId": campaign["id"], "deletedAt": None}
        amount = {"amount": {"amount": given["amount"], "currency": "EUR"}}
        return self.add(self.outlays, given | ids | amount, now, "outlay")

    def add_user(self, now, tracker=None):
        """Store a visitor without fields and return the id."""
        known = {"fields": {}, "vendorUserIds": [tracker] if tracker else []}
        user = self.add(self.users, known, now)["_id"]
        self.people |= {tracker: user} if tracker else {}
        return user

    def visit(self, number):
        """Store a visitor with sessions, events and perhaps an offline interaction."""
        random, tracker, email = self.random, f"tracker-{number}", f"user{number}@x.example"
        user, moment = self.add_user(START, tracker), START + timedelta(seconds=random.randint(0, 2_600_000))
        for index in range(random.randint(1, 8)):
            self.add_session(user, tracker, moment)
            if index < number % 4:
                reference = random.choice(["order", "lead", "Order Completed", "Order_Completed"])
                amount, name = random.randint(1_000, 30_000) / 100, random.choice(SAMPLES["names"])
                lead = {"qualified": index % 2, "score": index, "location": "Lyon", "note": "Hi"}
                order = {"turnover": amount, "paid": 1, "orderId": f"{number}-{index}"}
                data = (lead if reference == "lead" else order) | {"firstName": name}
                data["mail"] = email if random.random() < 0.92 else "none"  # which is trashed
                sent = {"nonce": self.uuid(), "trackerId": tracker, "eventType": reference, "data": data}
                date = moment + timedelta(minutes=4)
                self.add_event(sent | {"eventDate": date}, date + timedelta(minutes=1))
            moment += timedelta(milliseconds=random.randint(1_000_000, 10 * 86_400_000))
        if number % 3 == 0:
            vendor, data = random.choice(list(self.vendors)), {"email": email}
            integration = self.vendors[vendor]["integrationId"]
            known = [c["id"] for c in self.campaigns.values() if c["integrationId"] == integration]
            node = {"vendorId": vendor, "campaignId": random.choice(known)}
            self.add_offline({"date": moment, "userData": data, "nodeData": node}, NOW, user)

    def add_session(self, user, tracker, start):
        """Store a session with its hits."""
        random, node = self.random, self.random.choice(list(self.nodes.values()))
        campaign = self.campaigns.get(node.get("campaignId"))
        search = f"?utm_campaign={campaign['campaignSlug']}" if campaign else ""
        shared = {name: random.choice(SAMPLES[name]) for name in ("geo", "userAgent", "asn")}
        shared |= {"isBot": random.random() < 0.05, "referrerType": "search" if campaign else "direct"}
        dates, id_, hits = [start], self.id(), []
        for _ in range(random.randint(0, 4)):
            dates.append(dates[-1] + timedelta(milliseconds=random.randint(1, 120_000)))
        for date in dates:
            path, query = f"/p/{random.randint(1, 9)}", "" if hits else search
            page = SAMPLES["page"] | {"pathname": path, "search": query}
            given = {"id": self.uuid(), "projectId": self.project, "sessionId": id_, "hitType": "pageview"}
            given |= {"serverDate": date, "timezoneOffset": -60, "pageUrl": page}
            hits.append(given | shared)
        page, identity = hits[0]["pageUrl"], {"vendorUserId": tracker}
        address = page["origin"] + page["pathname"] + page["search"]
        self.hits[hits[0]["id"]] = hits
        ids = {"type": "session", "userId": user, "userData": identity, "rawUserData": identity}
        ids |= {"nodeId": node["nodeId"], "integrationId": campaign and campaign["integrationId"]}
        ids |= {"firstHitId": hits[0]["id"], "hitCount": len(hits)}
        span = {"startDate": start, "endDate": dates[-1], "duration": (dates[-1] - start).total_seconds()}
        span |= {"ingestedAt": dates[-1], "updateDate": dates[-1], "firstPage": address, "firstPageUrl": page}
        captured = {"trafficFilterId": "filter-1" if random.random() < 0.05 else None, "_id": id_}
        record = dict.fromkeys(OPTIONAL) | ids | span | shared | captured | {"projectId": self.project}
        self.interactions[id_] = record

    def add_offline(self, given, now, user=None):
        """Store an offline interaction under the node that its data name."""
        node, identity = given["nodeData"], given.get("userData") or {}
        user = user or self.people.get(identity.get("email")) or self.add_user(now)
        self.people |= {identity["email"]: user} if "email" in identity else {}
        vendor, date = self.vendors[node["vendorId"]], given["date"]
        known = {n.get("campaignId"): id_ for id_, n in self.nodes.items()}
        ids = {"_id": self.id(), "projectId": self.project, "type": "offline", "userId": user, "isBot": False}
        ids["nodeId"] = known.get(node.get("campaignId") or "", vendor["node"])
        ids["integrationId"] = vendor["integrationId"]
        span = {"startDate": date, "endDate": date, "duration": 0}
        stamps = dict.fromkeys(("ingestedAt", "createdAt", "updateDate"), now)
        record = dict.fromkeys(OPTIONAL) | {"rawNodeData": node}
        record |= {"userData": identity, "rawUserData": identity}
        self.interactions[ids["_id"]] = record | ids | span | stamps
        return self.interactions[ids["_id"]]

    def add_event(self, given, now):
        """Process an event: store it as sent and as computed or trashed, and return its id."""
        reference, data, date = given["eventType"], given["data"], given.get("eventDate") or now
        declared = self.event_types.get(reference)
        ids = {"_id": self.uuid(), "projectId": self.project}
        id_ = self.nonces[given["nonce"]] = ids["_id"]
        sent = {name: given.get(name) for name in ("nonce", "eventType", "trackerId")}
        self.raw_events[id_] = ids | sent | {"createdAt": now, "data": data}
        fields = declared["fields"] if declared and not declared["archivedAt"] else []
        values = {one["storageKey"]: data.get(one["ingestionKey"]) for one in fields}
        unknown = {"type": "unknown-event-type", "field": SERVICE["field"], "value": reference}
        errors = [] if fields else [unknown]
        for one in fields:
            value = values[one["storageKey"]]
            if not one["optional"] if value is None else not valid(one["type"], value):
                problem = "missing-field" if value is None else "invalid-field"
                errors.append({"type": problem, "field": one, "value": value})
        if errors:
            type_ = {"eventTypeId": declared and declared["_id"], "eventTypeRef": reference}
            trashed = ids | type_ | {"errors": errors, "processingDate": now, "rawEventDate": date}
            self.trashed_events[id_] = trashed
            return id_
        kinds = {f["storageKey"]: f["type"] for f in fields if f["entity"] == "user"}
        person = {key: dated(kinds[key], values[key], date) for key in kinds if values[key] is not None}
        email, tracker = person.get("email", {}).get("current"), given.get("trackerId")
        user = self.people.get(email) or self.people.get(tracker) or self.add_user(now, tracker)
        self.people |= {key: user for key in (email, tracker) if key}
        source = {"discriminant": False, "from": {"type": "event", "id": id_}}
        for key, value in person.items():
            known = self.users[user]["fields"].setdefault(key, [])
            known += [] if value["current"] in [one["current"] for one in known] else [value | source]
        types = {one["storageKey"]: one["type"] for one in fields if one["entity"] == "event"}
        event = ids | {"userId": user, "eventDate": date, "eventType": reference, "types": types}
        event |= {"user": person, "attributable": bool(tracker), "expirationPolicy": None}
        event |= {"createdAt": now, "updatedAt": now}
        content = {key: values[key] for key in types if values[key] is not None}
        self.events[id_] = event | {"metrics": {}, "event": content}
        self.set_metric(self.events[id_], "event-count", "number", 1, date, now)
        for key, type_ in types.items():
            if type_ == "state" or (type_ in ("number", "currency") and values[key] is not None):
                self.set_metric(self.events[id_], key, type_, values[key] or 0, date, now)
        return id_

    def set_metric(self, event, key, kind, value, date, now):
        """Set a state or a statistic of an event, and the delay of a state."""
        value = {"amount": number(value), "currency": "EUR"} if kind == "currency" else value
        data = dated(kind, value, date)
        given = {"eventId": event["_id"], "key": key, "type": "state" if kind == "state" else "statistic"}
        known = event["metrics"].get(key) or self.add({}, given | {"deletedAt": None}, now, "metric")
        event["metrics"][key] = known | {"data": data, "updatedAt": now}
        if kind == "state":
            event["metrics"].pop(f"state-delay-{key}", None)
            if value:
                delay = (date - event["eventDate"]).total_seconds()
                self.set_metric(event, f"state-delay-{key}", "number", delay, date, now)
        return event["metrics"][key]

    def complete_users(self):
        """Return the complete records of all users by id, computed anew after a write sets `complete` to None."""
        if self.complete is None:
            visits, events = defaultdict(list), defaultdict(list)
            for one in sorted(self.interactions.values(), key=lambda one: one["startDate"]):
                visits[one["userId"]].append(one)
                one["userLifetimeIndex"] = len(visits[one["userId"]])
            for one in sorted(self.events.values(), key=lambda one: one["eventDate"]):
                events[one["userId"]].append(one)
            pairs = self.users.items()
            self.complete = {id_: known | counters(visits[id_], events[id_]) for id_, known in pairs}
            for user in self.complete.values():
                if found := user["fields"].get("location"):
                    place = {"source": "event-based", "location": found[-1]["current"]["location"]}
                    user["mostProbableLocation"] = place | {"confidence": 0.9}
        return self.complete


def counters(visits, events):
    """Return the counters of a user, over interactions that are neither bots nor captured by a filter."""
    visits = [visit for visit in visits if not visit["isBot"] and not visit["trafficFilterId"]]
    metrics, dates = defaultdict(list), defaultdict(list)
    record = {"eventCount": len(events), "eventTypeMeta": {}, "metrics": {}}
    for event in events:
        dates[event["eventType"]].append(event["eventDate"])
        for metric in event["metrics"].values():
            metrics[metric["key"], metric["type"]].append(number(metric["data"]["current"]))
    record["eventTypesCount"] = {reference: len(those) for reference, those in dates.items()}
    for reference, those in dates.items():
        meta = {"count": len(those), "firstDate": those[0], "lastDate": those[-1]}
        record["eventTypeMeta"][reference] = meta
    for (key, type_), v in metrics.items():
        sums = {"type": type_, "sum": sum(v), "max": max(v), "min": min(v), "count": len(v)}
        record["metrics"][key] = sums | {"average": sum(v) / len(v)}
    record |= {"audienceIds": ["audience-buyers"] if events else [], "interactionCount": len(visits)}
    for name, source in (("hitCount", "hitCount"), ("interactionDuration", "duration")):
        record[name] = sum(visit.get(source, 0) for visit in visits)
        record[f"average{name[0].upper()}{name[1:]}"] = record[name] / max(len(visits), 1)
    for which, index in (("first", 0), ("last", -1)):
        record[f"{which}EventDate"] = events[index]["eventDate"] if events else None
        record[f"{which}InteractionDate"] = visits[index]["startDate"] if visits else None
        record[f"{which}InteractionNodeId"] = visits[index]["nodeId"] if visits else None
    return record


def number(value):
    """Return the number of a metric's value, which is an object for amounts."""
    return value.get("amount") if isinstance(value, dict) else value


def valid(kind, value):
    """Tell whether a value fits the type of a field."""
    if kind in ("number", "currency", "state"):
        return isinstance(number(value), int | float) and (kind != "state" or value in (0, 1))
    return isinstance(value, str) and (kind != "email" or "@" in value)


def dated(kind, raw, date):
    """Return a value of a user field, raw and normalised."""
    current = {"email": str(raw).strip().lower(), "location": SAMPLES["location"]}.get(kind, raw)
    flags = {"date": date, "anonymized": False, "invalid": False}
    return {"raw": raw, "current": current, "type": kind, **flags}
