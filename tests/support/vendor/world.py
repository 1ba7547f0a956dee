"""Seeded data of a project, kept in memory as the specification's records; date-times are instants in UTC."""

import re
import tomllib
from collections import defaultdict
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

SERVICE = tomllib.loads((Path(__file__).parent / "service.toml").read_text(encoding="utf-8"))
SAMPLES = SERVICE["samples"]
START, NOW = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 4, 1, tzinfo=UTC)
NUMBERS = ("number", "currency", "state")
AGGREGATES = {"sum": sum, "count": len, "average": lambda v: sum(v) / max(len(v), 1), "min": min, "max": max}
ENDS = {"first": lambda v: v[0] if v else None, "last": lambda v: v[-1] if v else None}
VALID = {"email": lambda v: "@" in v, "state": lambda v: v in (0, 1)}
VALID |= dict.fromkeys(("number", "currency"), lambda v: isinstance(number(v), int | float))


class World:
    """The records of one project, by kind and id; `people` are users by email and tracker."""

    def __init__(self, project="my-shop", seed=1, users=40, ids="hex"):
        self.project, self.random, self.ids, self.count = project, Random(seed), ids, 10_000
        for kind in (*SERVICE["records"], "nonces", "people", "vendors"):
            setattr(self, kind, {})
        self.projects = {project: None}
        for given in SERVICE["event_types"]:
            self.add_event_types(given, START)
        for vendor, campaigns in SERVICE["campaigns"].items():
            node = self.add("nodes", {"nodeName": vendor, "vendorId": vendor, "parent": None})["nodeId"]
            self.vendors[vendor] = {"integrationId": self.id("integration"), "node": node}
            for given in campaigns:
                campaign = self.add_campaigns(given | {"~vendorId": vendor}, START)["id"]
                for month in (1, 2, 3):
                    amount = {"amount": self.random.randint(1, 90_000) / 100, "currency": "EUR"}
                    given = {"~vendorId": vendor, "campaignId": campaign, "amount": amount}
                    start, end = (START.replace(month=m) for m in (month, month + 1))
                    self.add("outlays", given | {"startDate": start, "endDate": end}, START)
        self.add("nodes", {"nodeName": "direct", "parent": None})
        for number in range(users):
            self.visit(number)

    def id(self, noun=""):
        """Return an id: a UUID, or 24 hexadecimal digits or, where it may be any string, the style chosen."""
        self.count += 1
        digits, strange = f"{self.random.getrandbits(96):024x}", f"{noun}/№ {self.count}?é%20&#'"
        styles = {"hex": digits, "numeric": str(self.count), "strange": strange}
        return str(UUID(int=int(digits, 16))) if noun == "uuid" else styles[self.ids if noun else "hex"]

    def add(self, kind, given, now=START):
        """Store a record of a kind, with an id of its own and what all of them have."""
        like = SERVICE["records"][kind]
        record = dict.fromkeys(like.get("nulls", ())) | dict.fromkeys(like.get("stamps", ()), now)
        record |= {like["key"]: self.id(like.get("noun", "")), "projectId": self.project}
        if "~vendorId" in given:
            record["integrationId"] = self.vendors[given["~vendorId"]]["integrationId"]
        record |= deepcopy(like.get("defaults", {})) | given
        return getattr(self, kind).setdefault(record[like.get("by", like["key"])], record)

    def add_event_types(self, given, now):
        """Store an event type."""
        fields = [SERVICE["field"] | {"ingestionKey": one["storageKey"]} | one for one in given["fields"]]
        keys = [one["storageKey"] for one in fields]
        known = {"fields": fields, "~storageKeys": keys, "~archived": "archivedAt" in given}
        return self.add("event_types", given | known, now)

    def add_campaigns(self, given, now):
        """Store a campaign and its node."""
        record = self.add("campaigns", given, now)
        node = {"nodeName": given["name"], "campaignId": record["id"]}
        self.add("nodes", node | {"parent": self.vendors[given["~vendorId"]]["node"]})
        return record

    def user_of(self, names, now):
        """Return the user of the first known email or tracker, or a new one, known by all of them from then."""
        names = [name for name in names if name]
        user = next((self.people[name] for name in names if name in self.people), None)
        trackers = [name for name in names if "@" not in name]
        user = user or self.add("users", {"fields": {}, "vendorUserIds": trackers}, now)["_id"]
        self.people |= dict.fromkeys(names, user)
        return user

    def visit(self, number):
        """Store a visitor with sessions, events and perhaps an offline interaction."""
        random, tracker, email = self.random, f"tracker-{number}", f"user{number}@x.example"
        moment = START + timedelta(seconds=random.randint(0, 2_600_000))
        for index in range(random.randint(1, 8)):
            self.add_session(tracker, moment)
            if index < number % 4:
                # Without an email the event is trashed.
                data = SAMPLES["data"] | {"mail": email if random.random() < 0.92 else "none"}
                data |= {"turnover": random.randint(1_000, 30_000) / 100, "orderId": f"{number}-{index}"}
                data |= {"firstName": random.choice(SAMPLES["names"])}
                event = {"eventType": random.choice(SAMPLES["references"]), "nonce": data["orderId"]}
                event |= {"data": data, "trackerId": tracker, "eventDate": moment + timedelta(minutes=4)}
                self.add_event(event, moment + timedelta(minutes=5))
            moment += timedelta(milliseconds=random.randint(1_000_000, 10 * 86_400_000))
        if number % 3 == 0:
            node = random.choice([one for one in self.nodes.values() if one["parent"]])
            data = {"vendorId": self.nodes[node["parent"]]["vendorId"], "campaignId": node["campaignId"]}
            self.add_interactions({"date": moment, "userData": {"email": email}, "nodeData": data}, NOW)

    def add_interaction(self, names, start, end, given):
        """Store an interaction of a user."""
        user = self.user_of(names, end)
        index = 1 + sum(one["userId"] == user for one in self.interactions.values())
        span = {"startDate": start, "endDate": end, "duration": (end - start).total_seconds()}
        known = {"userId": user, "userLifetimeIndex": index, "rawUserData": given["userData"]}
        known |= span | {"ingestedAt": end, "updateDate": end, "isBot": False}
        return self.add("interactions", known | given | {"~filtered": bool(given.get("trafficFilterId"))})

    def add_session(self, tracker, start):
        """Store a session with its hits."""
        random, node = self.random, self.random.choice(list(self.nodes.values()))
        campaign = self.campaigns.get(node.get("campaignId"), {})
        shared = {name: random.choice(SAMPLES[name]) for name in ("geo", "userAgent", "asn", "referrerType")}
        shared["isBot"], id_, first, end = random.random() < 0.05, self.id(), self.id("uuid"), start
        query = {"search": f"?utm_campaign={campaign.get('campaignSlug', '')}"}
        page = SAMPLES["page"] | {"pathname": f"/p/{random.randint(1, 9)}"} | query
        for number in range(count := random.randint(1, 5)):
            end += timedelta(milliseconds=number and random.randint(1, 120_000))
            hit = {"id": self.id("uuid") if number else first, "~firstHitId": first, "sessionId": id_}
            self.add("hits", SAMPLES["hit"] | shared | hit | {"serverDate": end, "pageUrl": page})
        session = shared | {"_id": id_, "type": "session", "userData": {"vendorUserId": tracker}}
        session |= {"firstHitId": first, "hitCount": count, "nodeId": node["nodeId"]}
        session |= {"firstPage": page["origin"] + page["pathname"] + page["search"], "firstPageUrl": page}
        session |= {"trafficFilterId": "filter-1" if random.random() < 0.05 else None}
        session["integrationId"] = campaign.get("integrationId")
        self.add_interaction([tracker], start, end, session)

    def add_interactions(self, given, now):
        """Store an offline interaction under the node that its data name."""
        data, identity, date = given["nodeData"], given.get("userData") or {}, given.get("date") or now
        nodes = {one.get("campaignId"): one["nodeId"] for one in self.nodes.values()}
        node = nodes.get(data.get("campaignId") or "", self.vendors[data["vendorId"]]["node"])
        record = {"type": "offline", "userData": identity, "rawNodeData": data, "createdAt": now}
        record |= {"nodeId": node, "~vendorId": data["vendorId"]}
        return self.add_interaction([identity.get("email")], date, date, record)

    def add_event(self, given, now):
        """Process an event: store it as sent and as computed or trashed, and return its id."""
        reference, date, id_ = given["eventType"], given.get("eventDate") or now, self.id("uuid")
        sent = {name: given.get(name) for name in ("nonce", "eventType", "trackerId", "data")}
        self.nonces[given["nonce"]] = self.add("raw_events", sent | {"_id": id_}, now)["_id"]
        declared = self.event_types.get(reference, {"~archived": True, "fields": []})
        unknown = {"type": "unknown-event-type", "field": SERVICE["field"], "value": reference}
        errors, types, content, person = [unknown] if declared["~archived"] else [], {}, {}, {}
        for field in declared["fields"]:
            key, kind, value = field["storageKey"], field["type"], given["data"].get(field["ingestionKey"])
            types |= {key: kind} if field["entity"] == "event" else {}
            if not (field["optional"] if value is None else VALID.get(kind, str)(value)):
                problem = "missing-field" if value is None else "invalid-field"
                errors.append({"type": problem, "field": field, "value": value})
            elif value is not None and key in types:
                content[key] = value
            elif value is not None:
                person[key] = dated(kind, value, date)
        if errors:
            type_ = {"eventTypeId": declared.get("_id"), "eventTypeRef": reference, "_id": id_}
            trashed = {"errors": errors, "processingDate": now, "rawEventDate": date}
            return self.add("trashed_events", type_ | trashed)["_id"]
        user = self.user_of([person.get("email", {}).get("current"), given.get("trackerId")], now)
        for key, value in person.items():
            held = self.users[user]["fields"].setdefault(key, [])
            if value["current"] not in [one["current"] for one in held]:
                held.append(value | {"discriminant": False, "from": {"type": "event", "id": id_}})
        event = {"_id": id_, "userId": user, "eventDate": date, "eventType": reference, "event": content}
        event |= {"user": person, "attributable": bool(given.get("trackerId")), "~types": types}
        event = self.add("events", event | {"~metrics": {}}, now)
        for key, kind in {"event-count": "number", **types}.items():
            if key in content or kind == "state" or key not in types:
                value = content.get(key, int(key not in types))
                self.set_metric(event, key, kind, value, date, now)
        return id_

    def set_metric(self, event, key, kind, value, date, now):
        """Set a state or a statistic of an event, and the delay of a state; other kinds are no metrics."""
        given = {"eventId": event["_id"], "key": key, "type": "state" if kind == "state" else "statistic"}
        value = {"amount": number(value), "currency": "EUR"} if kind == "currency" else value
        if kind not in NUMBERS:
            return None
        metric = event["~metrics"].get(key) or self.add("metrics", given | {"~userId": event["userId"]}, now)
        event["~metrics"][key] = metric
        metric |= {"data": dated(kind, value, date), "updatedAt": now}
        if kind == "state":
            delay, seconds = f"state-delay-{key}", (date - event["eventDate"]).total_seconds()
            self.metrics.pop(event["~metrics"].pop(delay, {"_id": None})["_id"], None)
            _ = value and self.set_metric(event, delay, "number", seconds, date, now)
        return metric

    def complete_users(self):
        """Return the records of all users by id, with counters over visits that are neither bots nor filtered."""
        rows = defaultdict(lambda: {"visits": [], "events": []})
        for one in sorted(self.interactions.values(), key=lambda one: one["startDate"]):
            rows[one["userId"]]["visits"] += [] if one["isBot"] or one["~filtered"] else [one]
        for one in sorted(self.events.values(), key=lambda one: one["eventDate"]):
            rows[one["userId"]]["events"].append(one)
        return {id_: user | counters(rows[id_]) for id_, user in self.users.items()}

    def key(self):
        """Return the pattern of keys of users."""
        fields = [one for type_ in self.event_types.values() for one in type_["fields"]]
        names = "|".join(one["storageKey"] for one in fields)
        types, counters = "|".join(map(re.escape, self.event_types)), "|".join(SERVICE["counters"])
        metrics = rf"metrics\.(event-count|(state-delay-)?({names}))\.({'|'.join(AGGREGATES)})"
        return rf"{'|'.join(SERVICE['vocabulary']['keys'])}|{counters}|fields\.({names})|eventTypesCount\.({types})|{metrics}"


def counters(rows):
    """Return what a user gathers from visits and events."""
    record = {"audienceIds": ["audience-buyers"] if rows["events"] else []}
    dates, metrics = defaultdict(list), defaultdict(list)
    for name, (kind, how, path) in SERVICE["counters"].items():
        record[name] = (AGGREGATES | ENDS)[how]([row.get(path, 0) for row in rows[kind]])
    for event in rows["events"]:
        dates[event["eventType"]].append(event["eventDate"])
        for metric in event["~metrics"].values():
            metrics[metric["key"], metric["type"]].append(number(metric["data"]["current"]))
    types = {key: {"count": len(v), "firstDate": v[0], "lastDate": v[-1]} for key, v in dates.items()}
    record |= {"eventTypeMeta": types, "eventTypesCount": {key: len(v) for key, v in dates.items()}}
    sums = {key: {how: of(v) for how, of in AGGREGATES.items()} for key, v in metrics.items()}
    return record | {"metrics": {key: v | {"type": kind} for (key, kind), v in sums.items()}}


def number(value):
    """Return the number of a metric's value, which is an object for amounts."""
    return value.get("amount") if isinstance(value, dict) else value


def dated(kind, raw, date):
    """Return a value of a user field or a metric, raw and normalised."""
    current = {"email": str(raw).strip().lower(), "location": SAMPLES["location"]}.get(kind, raw)
    flags = {"date": date, "anonymized": False, "invalid": False}
    return {"raw": raw, "current": current, "type": kind, **flags}
