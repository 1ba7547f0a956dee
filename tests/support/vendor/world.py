"""Seeded data of a project, kept in memory as the specification's records; date-times are instants in UTC."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

START, NOW = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 4, 1, tzinfo=UTC)
CURRENCY = "EUR"
FIRST_NAMES = ("Ann", "Ben", "Chloé", "Dag", "Ewa", "李", "Gül", "O'Hara")
CITIES = (("FR", "Lyon", 45.76, 4.83), ("NO", "Oslo", 59.91, 10.75), ("PL", "Łódź", 51.77, 19.46))
BROWSERS = (("Firefox", "Gecko", "Linux", "desktop"), ("Safari", "WebKit", "iOS", "mobile"))


def field(key, kind="string", entity="user", ingestion=None, optional=True, **flags):
    """Return a field of an event type."""
    flags = {"discriminant": False, "isPii": False, "isMostProbableLocation": False} | flags
    return {"type": kind, "entity": entity, "storageKey": key, "ingestionKey": ingestion or key, **flags, "optional": optional}  # fmt: skip


def page_url(path, search=""):
    """Return the object of a page's address."""
    place = {"protocol": "https:", "hostname": "shop.example", "port": "", "origin": "https://shop.example"}
    return place | {"pathname": path, "search": search, "hash": ""}


class World:
    """The records of one project."""

    def __init__(self, project="my-shop", seed=1, users=40, ids="hex"):
        self.project, self.random, self.ids, self.version, self.counter = project, Random(seed), ids, 0, 10_000
        self.interactions, self.hits, self.users, self.events, self.raw = {}, {}, {}, {}, {}
        self.trashed, self.types, self.campaigns, self.outlays, self.nodes = {}, {}, {}, {}, {}
        self.nonces, self.by_email, self.by_tracker, self.vendors = {}, {}, {}, {}
        self._complete, self._complete_version = {}, -1
        self._declare()
        for number in range(users):
            self._visitor(number)

    # Identifiers

    def hex24(self):
        """Return an id of an interaction or a user."""
        return f"{self.random.getrandbits(96):024x}"

    def uuid(self):
        """Return an id of an event or a hit."""
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def free(self, noun):
        """Return an id that the specification types as a string, in the style chosen."""
        self.counter += 1
        strange = f"{noun}/№ {self.counter}?é%20&#'"
        return {"hex": self.hex24(), "numeric": str(self.counter), "strange": strange}[self.ids]

    # Declarations

    def _declare(self):
        person = [field("email", "email", ingestion="mail", discriminant=True, isPii=True), field("firstName", isPii=True)]
        order = [field("turnover", "currency", "event"), field("paid", "state", "event"), field("orderId", entity="event", optional=False)]  # fmt: skip
        lead = [field("qualified", "state", "event"), field("converted", "state", "event"), field("score", "number", "event")]
        place = [field("phone", "phone", isPii=True), field("location", "location", isMostProbableLocation=True), field("note", "message", "event")]  # fmt: skip
        for reference, fields in (("order", order), ("lead", lead + place), ("Order Completed", order), ("Order_Completed", order)):
            self.add_type({"reference": reference, "name": reference.capitalize(), "fields": person + fields}, START)
        self.add_type({"reference": "old-form", "name": "Old form", "fields": person}, START)["archivedAt"] = NOW
        self.types["lead"]["phoneParsingConfig"] = [{"order": 0, "countryCode": "FR"}]
        for channel in ("direct", "organic", "referral"):
            self.nodes[self.free("node")] = {"name": channel, "parent": None, "campaignId": None, "vendorId": None}
        for vendor in ("Google Ads", "meta-ads"):
            root, integration = self.free("node"), self.free("integration")
            self.vendors[vendor] = {"integrationId": integration, "node": root}
            self.nodes[root] = {"name": vendor, "parent": None, "campaignId": None, "vendorId": vendor}
            for name in ("Spring Sale", "Brand", "Généric", "50%_off", "Spring brand"):
                made = {"name": name, "campaignSlug": name.lower().replace(" ", "-").replace("é", "e").replace("%_", "-")}
                campaign = self.add_campaign(vendor, made, START, explicit=name != "Brand", active=name != "Généric")
                for month in (1, 2, 3):
                    dates = {"startDate": datetime(2025, month, 1, tzinfo=UTC), "endDate": datetime(2025, month + 1, 1, tzinfo=UTC)}
                    self.add_outlay(campaign, dates | {"amount": self.random.randint(10_000, 90_000) / 100}, START)

    def add_type(self, given, now):
        """Store an event type."""
        stamps = {"createdAt": now, "updatedAt": now, "archivedAt": None, "projectId": self.project}
        record = {"_id": self.free("type"), **stamps, "metadata": {}, "phoneParsingConfig": [], **given}
        self.types[given["reference"]] = record
        return record

    def add_campaign(self, vendor, given, now, explicit=True, active=True):
        """Store a campaign and its node."""
        record = {"id": self.free("campaign"), "integrationId": self.vendors[vendor]["integrationId"], "projectId": self.project}
        record |= {"active": active, "explicit": explicit, "createdAt": now, "updatedAt": now} | given
        self.campaigns[record["id"]] = record
        parent = {"parent": self.vendors[vendor]["node"], "vendorId": vendor, "campaignId": record["id"]}
        self.nodes[self.free("node")] = {"name": record["name"]} | parent
        return record

    def add_outlay(self, campaign, given, now):
        """Store an outlay."""
        ids = {"_id": self.free("outlay"), "projectId": self.project, "integrationId": campaign["integrationId"]}
        stamps = {"deletedAt": None, "createdAt": now, "updatedAt": now}
        amount = {"amount": {"amount": given.pop("amount"), "currency": CURRENCY}}
        self.outlays[ids["_id"]] = {**ids, "campaignId": campaign["id"], **amount, **given, **stamps}
        return self.outlays[ids["_id"]]

    # Visits and events

    def _visitor(self, number):
        random, user, tracker = self.random, self.new_user(START), f"tracker-{number}"
        self.by_tracker[tracker] = user
        moment, dates = START + timedelta(seconds=random.randint(0, 30 * 86_400)), []
        for _ in range(random.randint(1, 8)):
            self._session(user, tracker, moment)
            dates.append(moment)
            moment += timedelta(milliseconds=random.randint(1_000_000, 10 * 86_400_000))
        if number % 3 == 0:
            campaign = random.choice(list(self.campaigns.values()))
            vendor = next(v for v, known in self.vendors.items() if known["integrationId"] == campaign["integrationId"])
            given = {"vendorId": vendor, "campaignId": campaign["id"]}
            self.add_offline({"date": dates[-1] + timedelta(hours=5), "userData": {"email": f"user{number}@x.example"}, "nodeData": given}, NOW, user)  # fmt: skip
        for date in random.sample(dates, min(len(dates), number % 5)):
            reference = random.choice(("order", "lead", "Order Completed", "Order_Completed"))
            data = {"mail": f"user{number}@x.example", "firstName": random.choice(FIRST_NAMES)}
            if reference == "lead":
                data |= {"qualified": random.randint(0, 1), "score": random.randint(0, 100), "location": "Lyon", "note": "Call me"}
            else:
                data |= {"turnover": random.randint(1_000, 30_000) / 100, "paid": 1, "orderId": f"{number}-{date:%m%d}"}
            data = data if random.random() < 0.92 else data | {"mail": "none"}  # the others are trashed
            sent = {"eventType": reference, "eventDate": date + timedelta(minutes=4), "trackerId": tracker, "data": data}
            self.add_event({"projectId": self.project, "nonce": f"seed-{self.uuid()}", **sent}, date + timedelta(minutes=5))

    def new_user(self, now):
        """Store a visitor without fields."""
        user = self.hex24()
        self.users[user] = {"fields": {}, "trackers": [], "createdAt": now, "updatedAt": now}
        return user

    def _session(self, user, tracker, start):
        random, (country, city, latitude, longitude) = self.random, self.random.choice(CITIES)
        browser, engine, system, device = random.choice(BROWSERS)
        id_, first, last = self.hex24(), self.uuid(), start
        node = random.choice(list(self.nodes))
        campaign = self.campaigns.get(self.nodes[node]["campaignId"])
        search = f"?utm_campaign={campaign['campaignSlug']}" if campaign else ""
        shared = {
            "projectId": self.project,
            "isBot": random.random() < 0.05,
            "asn": {"asnId": "64500", "asnName": "Example Network"},
            "geo": {"countryCode": country, "state": "", "city": city, "latitude": latitude, "longitude": longitude, "zipcode": "01234"},
            "referrerType": "search" if campaign else "direct",
            "userAgent": {
                "ua": f"Mozilla/5.0 ({system}) {browser}/128.0",
                "browser": {"name": browser, "version": "128.0", "major": "128"},
                "engine": {"name": engine, "version": "1.0"},
                "os": {"name": system, "version": "17"},
                "device": {"vendor": "Example", "model": "X", "type": device},
                "cpu": {"architecture": "amd64"},
            },
        }
        self.hits[first] = []
        for index in range(random.randint(1, 5)):
            last = last + timedelta(milliseconds=random.randint(1, 120_000)) if index else start
            page = {"pageUrl": page_url(f"/p/{random.randint(1, 9)}", "" if index else search), "hitType": "pageview"}
            ids = {"id": self.uuid() if index else first, "sessionId": id_, "serverDate": last, "timezoneOffset": -60}
            self.hits[first].append({**ids, **shared, **page})
        opened = self.hits[first][0]["pageUrl"]
        self.users[user]["trackers"] = list(dict.fromkeys([*self.users[user]["trackers"], tracker]))
        self.interactions[id_] = {
            "_id": id_, "type": "session", "userId": user, "startDate": start, "endDate": last,
            "duration": (last - start).total_seconds(), "ingestedAt": last, "updateDate": last,
            "userData": {"vendorUserId": tracker}, "rawUserData": {"vendorUserId": tracker}, "nodeId": node,
            "integrationId": campaign and campaign["integrationId"], "externalId": None, "referrer": "https://search.example/",
            "trafficFilterId": "filter-1" if random.random() < 0.05 else None, "partialResolvedVendorId": None,
            "vendorUpdateDate": None, "firstHitId": first, "hitCount": len(self.hits[first]),
            "firstPage": opened["origin"] + opened["pathname"] + opened["search"], "firstPageUrl": opened, **shared,
        }  # fmt: skip

    def add_offline(self, given, now, user=None):
        """Store an offline interaction under the node that its data name."""
        data, email = given.get("nodeData") or {}, (given.get("userData") or {}).get("email")
        user = user or self.by_email.get(email) or self.new_user(now)
        self.by_email |= {email: user} if email else {}
        vendor = self.vendors[data["vendorId"]]
        node = next((n for n, known in self.nodes.items() if known["campaignId"] == data.get("campaignId")), vendor["node"])
        date, id_ = given.get("date") or now, self.hex24()
        self.interactions[id_] = {
            "_id": id_, "projectId": self.project, "type": "offline", "userId": user, "startDate": date, "endDate": date,
            "duration": 0, "ingestedAt": now, "createdAt": now, "updateDate": now, "userData": given.get("userData") or {},
            "rawUserData": given.get("userData") or {}, "rawNodeData": data, "integrationId": vendor["integrationId"],
            "nodeId": node if data.get("campaignId") else vendor["node"], "externalId": None, "isBot": False,
            "referrer": None, "referrerType": None, "trafficFilterId": None, "partialResolvedVendorId": None, "vendorUpdateDate": None,
        }  # fmt: skip
        return self.interactions[id_]

    def add_event(self, given, now):
        """Process an event: store it as sent and computed or trashed, and return its id."""
        id_, declared, date = self.uuid(), self.types.get(given["eventType"]), given.get("eventDate") or now
        ids = {"_id": id_, "projectId": self.project}
        self.nonces[given["nonce"]] = id_
        sent = {key: given.get(key) for key in ("nonce", "eventType", "trackerId")}
        self.raw[id_] = {**ids, **sent, "createdAt": now, "data": given["data"]}
        fields = declared["fields"] if declared and not declared["archivedAt"] else []
        errors = [] if fields else [{"type": "unknown-event-type", "field": field("eventType"), "value": given["eventType"]}]
        values = {one["storageKey"]: (one, given["data"].get(one["ingestionKey"] or one["storageKey"])) for one in fields}
        for one, value in values.values():
            if value is None and not one["optional"]:
                errors.append({"type": "missing-field", "field": one, "value": None})
            elif value is not None and not valid(one["type"], value):
                errors.append({"type": "invalid-field", "field": one, "value": value})
        if errors:
            about = {"eventTypeId": declared["_id"] if declared else None, "eventTypeRef": given["eventType"]}
            self.trashed[id_] = {**ids, "errors": errors, **about, "processingDate": now, "rawEventDate": date}
            return id_
        user = self._user_of(values, given.get("trackerId"), date, id_, now)
        content = {key: value for key, (one, value) in values.items() if one["entity"] == "event" and value is not None}
        metrics = {"event-count": self.metric(id_, "event-count", "number", 1, date, now)}
        for key, (one, value) in values.items():
            if one["type"] in ("state", "number", "currency") and (value is not None or one["type"] == "state"):
                metrics[key] = self.metric(id_, key, one["type"], value or 0, date, now)
                if one["type"] == "state" and value:
                    metrics[f"state-delay-{key}"] = self.metric(id_, f"state-delay-{key}", "number", 0.0, date, now)
        person = {key: kept | {"type": one["type"]} for key, (one, value) in values.items() if one["entity"] == "user" and (kept := current(one, value, date))}  # fmt: skip
        self.events[id_] = {
            **ids, "userId": user, "eventDate": date, "eventType": given["eventType"], "attributable": bool(given.get("trackerId")),
            "expirationPolicy": None, "event": content, "user": person, "metrics": metrics, "createdAt": now, "updatedAt": now,
            "declared": {one["storageKey"]: one["type"] for one in fields if one["entity"] == "event"},
        }  # fmt: skip
        return id_

    def metric(self, event, key, kind, value, date, now):
        """Return the record of a metric."""
        value = {"amount": value, "currency": CURRENCY} if kind == "currency" and not isinstance(value, dict) else value
        data = {"type": kind, "date": date, "raw": value, "current": value, "anonymized": False, "invalid": False}
        ids = {"_id": self.free("metric"), "projectId": self.project, "eventId": event, "key": key}
        return {**ids, "type": "state" if kind == "state" else "statistic", "data": data, "createdAt": now, "updatedAt": now, "deletedAt": None}  # fmt: skip

    def _user_of(self, values, tracker, date, event, now):
        email = (values.get("email", (None, None))[1] or "").strip().lower()
        user = self.by_email.get(email) or self.by_tracker.get(tracker) or self.new_user(now)
        self.by_email |= {email: user} if email else {}
        self.by_tracker |= {tracker: user} if tracker else {}
        record = self.users[user]
        record["updatedAt"] = now
        if tracker and tracker not in record["trackers"]:
            record["trackers"].append(tracker)
        for key, (one, value) in values.items():
            kept = current(one, value, date) if one["entity"] == "user" else None
            if kept and kept["current"] not in [known["current"] for known in record["fields"].get(key, [])]:
                kept |= {"type": one["type"], "discriminant": one["discriminant"], "from": {"type": "event", "id": event}}
                record["fields"].setdefault(key, []).append(kept)
        return user

    # Users with their counters

    def complete_users(self):
        """Return the complete records of all users by id, computed anew after each write."""
        if self._complete_version != self.version:
            visits, events = defaultdict(list), defaultdict(list)
            for one in sorted(self.interactions.values(), key=lambda one: one["startDate"]):
                visits[one["userId"]].append(one)
                one["userLifetimeIndex"] = len(visits[one["userId"]])
            for one in self.events.values():
                events[one["userId"]].append(one)
            self._complete = {id_: self._user(id_, visits[id_], events[id_]) for id_ in self.users}
            self._complete_version = self.version
        return self._complete

    def _user(self, id_, visits, events):
        known, metrics, types = self.users[id_], defaultdict(list), defaultdict(list)
        visits = [visit for visit in visits if not visit["isBot"] and not visit["trafficFilterId"]]
        events = sorted(events, key=lambda event: event["eventDate"])
        for one in events:
            types[one["eventType"]].append(one["eventDate"])
            for metric in one["metrics"].values():
                metrics[metric["key"]].append((metric["type"], number(metric["data"]["current"])))
        sums = {key: [value for _, value in pairs] for key, pairs in metrics.items()}
        hits, seconds = sum(v.get("hitCount", 0) for v in visits), sum(v["duration"] for v in visits)
        ends = lambda rows, key: (rows[0][key], rows[-1][key]) if rows else (None, None)  # noqa: E731
        record = {"_id": id_, "projectId": self.project, "fields": known["fields"], "vendorUserIds": known["trackers"]}
        record |= {"audienceIds": ["audience-buyers"] if events else [], "eventCount": len(events)}
        record["eventTypesCount"] = {key: len(dates) for key, dates in types.items()}
        record["eventTypeMeta"] = {key: {"count": len(d), "firstDate": min(d), "lastDate": max(d)} for key, d in types.items()}
        record["metrics"] = {
            key: {"type": metrics[key][0][0], "sum": sum(v), "max": max(v), "min": min(v), "count": len(v), "average": sum(v) / len(v)}
            for key, v in sums.items()
        }
        record["firstEventDate"], record["lastEventDate"] = ends(events, "eventDate")
        record |= {"interactionCount": len(visits), "hitCount": hits, "interactionDuration": seconds}
        record |= {"averageHitCount": hits / max(len(visits), 1), "averageInteractionDuration": seconds / max(len(visits), 1)}
        record["firstInteractionDate"], record["lastInteractionDate"] = ends(visits, "startDate")
        record["firstInteractionNodeId"], record["lastInteractionNodeId"] = ends(visits, "nodeId")
        if "location" in known["fields"]:
            point = known["fields"]["location"][-1]["current"]["location"]
            record["mostProbableLocation"] = {"source": "event-based", "confidence": 0.9, "location": point}
        return record | {"createdAt": known["createdAt"], "updatedAt": known["updatedAt"]}


def valid(kind, value):
    """Tell whether a value fits the type of a field."""
    amount = value.get("amount") if isinstance(value, dict) else value
    if kind in ("number", "currency", "state"):
        return isinstance(amount, int | float) and (kind != "state" or amount in (0, 1))
    return isinstance(value, str) and (kind != "email" or "@" in value)


def number(value):
    """Return the number of a metric's value, which is an object for amounts."""
    return value["amount"] if isinstance(value, dict) else value


def current(declared, value, date):
    """Return a value of a user field, raw and normalised."""
    if value is None:
        return None
    normal = value.strip().lower() if declared["type"] == "email" else value
    if declared["type"] == "location":
        point, extra = {"type": "Point", "coordinates": [4.83, 45.76]}, {"place": "p-1", "confidence": 0.9}
        names = {"city": value, "zipcode": "69001", "streetName": "", "streetNumber": "", "country": "France", "countryCode": "FR"}
        normal = {"formattedAddress": f"{value}, France", "location": point, "extra": extra, "administrativeLevels": {}, **names}
    return {"raw": value, "current": normal, "date": date, "anonymized": False, "invalid": False}
