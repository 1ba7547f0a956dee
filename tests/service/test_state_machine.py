"""Random sequences of operations on a whole project, each held against a model in plain Python."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.order_events import declared
from support.service_model import EARLY, LATE, Campaign, Event, Model, Visit
from support.service_records import hex_id, send, table
from support.user_invariants import assert_users_agree

from attrib_ds.errors import Conflict, InvalidRequest, NotFound
from attrib_ds.service import Service

DECLARED = {
    "order": [
        declared("email", "user", "email", ingestionKey="mail", discriminant=True, optional=True),
        declared("string", "user", "vendorUserId", optional=True),
        declared("string", "event", "coupon", optional=True),
        declared("currency", "event", "turnover", optional=True),
        declared("number", "event", "items", optional=True),
        declared("state", "event", "confirmed", optional=True),
        declared("state", "event", "returned", ingestionKey=None),
    ],
    "lead": [
        declared("email", "user", "email", ingestionKey="mail", discriminant=True, optional=True),
        declared("string", "user", "vendorUserId", optional=True),
        declared("number", "event", "score"),
        declared("state", "event", "qualified", optional=True),
    ],
}
MAILS = ["anna@example.com", "Anna@Example.com", "ben@example.com", "carl@example.com"]
VENDOR_IDS = ["v1", "v2"]
TRACKERS = ["t1", "t2", "t3"]
LOADED_USERS = [hex_id(900), hex_id(901)]
NONCES = [f"n{number}" for number in range(40)]
SLUGS = ["spring", "summer", "summer-sale"]

data = st.fixed_dictionaries(
    {},
    optional={
        "mail": st.sampled_from(MAILS),
        "vendorUserId": st.sampled_from(VENDOR_IDS),
        "items": st.sampled_from([1, 2, 2.5, "many"]),
        "score": st.sampled_from([1, 7, "high", None]),
        "confirmed": st.sampled_from([0, 1]),
        "turnover": st.sampled_from([{"amount": 10, "currency": "EUR"}, {"amount": 5.5, "currency": "USD"}]),
        "unheard": st.sampled_from(["a", "ben@example.com"]),
    },
)
contents = st.fixed_dictionaries(
    {"event_type": st.sampled_from(["order", "order", "order", "lead", "nothing"]), "data": data},
    optional={
        "tracker_id": st.sampled_from(TRACKERS),
        "event_date": st.sampled_from(["2025-01-10T12:00:00Z", "2025-01-20T12:00:00Z"]),
    },
)
dates = st.sampled_from([EARLY, LATE, EARLY - timedelta(days=30), LATE + timedelta(seconds=1)])
modes = st.sampled_from(["anonymise", "delete"])
texts = st.sampled_from(SLUGS)


def wire(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> datetime:
    return datetime.now(UTC)


class ProjectMachine(RuleBasedStateMachine):
    """One project, and its model."""

    events = Bundle("events")
    visits = Bundle("visits")

    @initialize()
    def open(self) -> None:
        self.model = Model()
        self.service = Service.open("shop", ":memory:")
        self.loaded = 0
        send(self.service, "create_integration", vendor_id="ads", name="Ads")
        self.declare("order")

    def declare(self, reference: str) -> None:
        fields = DECLARED[reference]
        send(self.service, "create_event_type", reference=reference, name=reference, fields=fields)
        self.model.types[reference] = False

    def send(self, operation: str, **arguments):
        return send(self.service, operation, **arguments)

    def drain(self) -> None:
        self.service._ingestion.settle()

    def event(self, id: str) -> dict:
        (record,) = self.send("get_event", id=id).read().to_pylist()
        return record

    def refused(self, kind: type[Exception], operation: str, **arguments) -> None:
        with pytest.raises(kind):
            self.send(operation, **arguments)

    # Event types

    @precondition(lambda self: "lead" not in self.model.types)
    @rule()
    def create_event_type(self):
        self.declare("lead")

    @rule(reference=st.sampled_from(["order", "lead"]))
    def create_event_type_again(self, reference):
        if reference in self.model.types:
            fields = DECLARED[reference]
            self.refused(Conflict, "create_event_type", reference=reference, name="Again", fields=fields)

    @rule(reference=st.sampled_from(["order", "lead"]), is_archived=st.booleans())
    def archive(self, reference, is_archived):
        operation = "archive_event_type" if is_archived else "restore_event_type"
        if reference not in self.model.types:
            self.refused(NotFound, operation, id=reference)
            return
        self.send(operation, id=reference)
        self.model.types[reference] = is_archived

    # Events

    @rule(target=events, nonce=st.sampled_from(NONCES), content=contents)
    def send_event(self, nonce, content):
        return self.accept(nonce, content, is_sync=True)

    @rule(target=events, nonce=st.sampled_from(NONCES), content=contents)
    def send_event_to_be_processed_later(self, nonce, content):
        return self.accept(nonce, content, is_sync=False)

    @rule(target=events, nonces=st.lists(st.sampled_from(NONCES), min_size=2, max_size=4), drawn=st.data())
    def send_batch(self, nonces, drawn):
        batch = [{"nonce": nonce, **drawn.draw(contents)} for nonce in nonces]
        wait = drawn.draw(st.booleans())
        renamed = {"event_type": "eventType", "event_date": "eventDate", "tracker_id": "trackerId"}
        envelopes = [
            {"projectId": "shop"} | {renamed.get(key, key): value for key, value in envelope.items()}
            for envelope in batch
        ]
        answers = self.send("create_events", events=envelopes, wait=wait).value
        self.drain()
        ids = []
        for envelope, answer in zip(batch, answers, strict=True):
            content = {key: value for key, value in envelope.items() if key != "nonce"}
            # In a batch, all nonces are accepted before the first event is processed.
            ids.append((envelope["nonce"], content, answer))
        before = set(self.model.by_nonce) | set(self.model.buried_nonces)
        return multiple(*[id for id in self.settle_batch(ids, before, is_sync=wait) if id])

    def settle_batch(self, answered, before, *, is_sync):
        first = {}
        for nonce, content, answer in answered:
            if nonce in before:
                yield self.settle_repeat(nonce, content, answer, is_sync=is_sync)
            elif nonce in first:
                known, id = first[nonce]
                if is_sync and known != content:
                    assert isinstance(answer, Conflict), answer
                else:
                    assert self.id_of(answer) == id
            else:
                id = self.settle_new(nonce, content, answer, is_sync=is_sync)
                first[nonce] = content, id
                yield id

    def accept(self, nonce, content, *, is_sync):
        operation = "create_event_sync" if is_sync else "create_event"
        try:
            answer = self.send(operation, nonce=nonce, **content).value
        except (InvalidRequest, Conflict) as error:
            answer = error
        self.drain()
        if nonce in self.model.by_nonce or nonce in self.model.buried_nonces:
            id = self.settle_repeat(nonce, content, answer, is_sync=is_sync)
        else:
            id = self.settle_new(nonce, content, answer, is_sync=is_sync)
        return multiple(*[id for id in [id] if id])

    def id_of(self, answer) -> str:
        return answer.details[0]["eventId"] if isinstance(answer, InvalidRequest) else answer

    def settle_repeat(self, nonce, content, answer, *, is_sync):
        """Hold the answer to a nonce that was there before against the first one (G-130 to G-132, G-210)."""
        model = self.model
        if nonce in model.buried_nonces:
            expected = model.buried_nonces[nonce]
            assert isinstance(answer, str), answer
            assert expected is None or answer == expected
            model.buried_nonces[nonce] = answer
            assert (answer in model.events) == bool(expected in model.events if expected else False)
            return
        event = model.events[model.by_nonce[nonce]]
        if is_sync and event.content != content:
            assert isinstance(answer, Conflict), (answer, event)
        else:
            assert self.id_of(answer) == event.id
            assert isinstance(answer, InvalidRequest) == (is_sync and event.error is not None)
        return

    def settle_new(self, nonce, content, answer, *, is_sync):
        model = self.model
        error = model.error_of(content)
        assert isinstance(answer, InvalidRequest) == (is_sync and error is not None), (answer, error)
        id = self.id_of(answer)
        assert id not in model.events
        given = content.get("event_date")
        date = datetime.fromisoformat(given) if given else now()
        event = Event(id, nonce, content, date, is_old=given is not None, error=error)
        model.events[id] = event
        model.by_nonce[nonce] = id
        if error is None:
            self.process(event)
        return id if id in model.events else None

    def process(self, event: Event) -> None:
        model = self.model
        if model.is_dropped(event):
            model.drop(event)
            return
        identities = model.identities(event.content)
        expected = model.expected_user(identities)
        # The ids of new users are the service's choice; later events of a batch may have merged this one.
        found = expected or self.new_user(event)
        model.assign(identities, found)
        model.process(event, found)
        if not event.is_old:
            received = self.event(event.id)["eventDate"]
            assert abs(received - event.date) < timedelta(minutes=5)
            event.date = received

    def new_user(self, event: Event) -> str:
        """Return the id that a new user was given: that of an identity of the event, before later merges."""
        user = self.event(event.id)["userId"]
        known = self.model.users | self.model.merged.keys()
        if user not in known:
            return user
        # Merged within its batch, a user was never stored.
        return f"never stored {event.id}"

    @rule(id=events)
    def replay(self, id):
        event = self.model.events.get(id)
        if event is None or event.error is None:
            self.refused(NotFound, "replay_event", id=id)
            return
        error = self.model.error_of(event.content)
        if error is not None:
            self.refused(InvalidRequest, "replay_event", id=id)
            event.error = error
            return
        assert self.send("replay_event", id=id).value == id
        self.drain()
        event.error = None
        self.process(event)

    @rule(
        id=events,
        key=st.sampled_from(["confirmed", "returned", "qualified", "items"]),
        value=st.sampled_from([0, 1]),
    )
    def update_state(self, id, key, value):
        event = self.model.events.get(id)
        if event is None or not event.user or key not in event.keys - {"items", "turnover", "score"}:
            self.refused(NotFound, "update_event_state", id=id, storage_key=key, value=value)
            return
        date = event.date + timedelta(hours=1)
        self.send("update_event_state", id=id, storage_key=key, value=value, date=date.isoformat())
        event.metrics[key] = float(value)
        event.metrics.pop(f"state-delay-{key}", None)
        if value:
            event.metrics[f"state-delay-{key}"] = 3600.0

    @rule(
        id=events,
        key=st.sampled_from(["items", "turnover", "score", "confirmed"]),
        value=st.sampled_from([3, 0, 12.5]),
    )
    def update_statistic(self, id, key, value):
        event = self.model.events.get(id)
        if event is None or not event.user or key not in event.keys & {"items", "turnover", "score"}:
            self.refused(NotFound, "update_event_statistic", id=id, storage_key=key, value=value)
            return
        self.send("update_event_statistic", id=id, storage_key=key, value=value, date=event.date.isoformat())
        if key == "turnover":
            currency = event.metrics.get(key, {}).get("currency", "EUR")
            event.metrics[key] = {"amount": value, "currency": currency}
        else:
            event.metrics[key] = float(value)

    # Users

    def some_user(self, drawn, *, merged=False) -> str | None:
        model = self.model
        users = sorted(model.users | (model.merged.keys() if merged else set()))
        users = [user for user in users if not user.startswith("never")]
        return drawn.draw(st.sampled_from(users)) if users else None

    @rule(drawn=st.data())
    def merge(self, drawn):
        one, other = self.some_user(drawn, merged=True), self.some_user(drawn, merged=True)
        if one is None:
            return
        survivor, gone = self.model.survivor(one), self.model.survivor(other)
        if survivor == gone:
            self.refused(InvalidRequest, "merge_users", id=one, userId=other)
            return
        self.send("merge_users", id=one, userId=other)
        self.model.merge(gone, survivor)

    @precondition(lambda self: any(not id.startswith("never") for id in self.model.merged))
    @rule(drawn=st.data())
    def split(self, drawn):
        model = self.model
        gone = drawn.draw(st.sampled_from(sorted(id for id in model.merged if not id.startswith("never"))))
        survivor = model.merged[gone].into
        if model.split(gone):
            self.send("split_user", id=survivor, userId=gone)
        else:
            self.refused(Conflict, "split_user", id=survivor, userId=gone)

    @rule(drawn=st.data(), mode=modes)
    def erase(self, drawn, mode):
        user = self.some_user(drawn, merged=True)
        if user is None:
            self.refused(NotFound, "delete_user", id=hex_id(5), mode=mode)
            return
        self.send("delete_user", id=user, mode=mode)
        self.model.erase(self.model.survivor(user), mode)

    # Interactions

    @rule(
        target=visits,
        mail=st.sampled_from(MAILS),
        date=st.none() | dates,
        slug=st.sampled_from(SLUGS),
        external_id=st.none() | st.sampled_from(["x1", "x2"]),
    )
    def create_offline_interaction(self, mail, date, slug, external_id):
        model = self.model
        moment = date or now()
        arguments = {
            "date": moment.isoformat(),
            "userData": {"email": mail},
            "nodeData": {"vendorId": "ads", "campaignSlug": slug},
            "externalId": external_id,
        }
        identity = ("email", mail.lower())
        first = next((v for v in model.visits.values() if external_id and v.external_id == external_id), None)
        if first is None and date is not None and identity in model.buried:
            self.refused(InvalidRequest, "create_offline_interaction", **arguments)
            return multiple()
        answer = self.send("create_offline_interaction", **arguments)
        (record,) = answer.read().to_pylist()
        assert answer.value == (first is None)
        if first is not None:
            assert record["_id"] == first.id
            return multiple()
        user = model.expected_user([identity]) or record["userId"]
        model.assign([identity], user)
        if slug not in model.campaigns:
            model.campaigns[slug] = Campaign(record["nodeId"], slug, explicit=False)
        milliseconds = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        # The node of a campaign has its id (G-218).
        node = model.campaigns[slug].id
        assert record["nodeId"] == node
        visit = Visit(record["_id"], user, milliseconds, node, external_id=external_id, mail=mail)
        model.visits[visit.id] = visit
        return visit.id

    @rule(target=visits, user=st.sampled_from(LOADED_USERS), date=dates, is_bot=st.booleans())
    def load_interaction(self, user, date, is_bot):
        model = self.model
        self.loaded += 1
        id = hex_id(self.loaded)
        record = {"_id": id, "userId": user, "startDate": wire(date), "nodeId": "direct", "isBot": is_bot}
        rejected = self.send("load_records", resource="interactions", source=table(record)).read()
        if user in model.buried_users:
            assert rejected.num_rows == 1
            return multiple()
        assert rejected.to_pylist() == []
        model.visits[id] = Visit(id, model.survivor(user), date, "direct", is_bot=is_bot)
        return id

    # Campaigns and outlays

    @rule(slug=texts, active=st.booleans())
    def create_campaign(self, slug, active):
        arguments = {"vendor_id": "ads", "campaign_slug": slug, "name": f"Campaign {slug}", "active": active}
        if slug in self.model.campaigns:
            self.refused(Conflict, "create_campaign", **arguments)
            return
        id = self.send("create_campaign", **arguments).value
        self.model.campaigns[slug] = Campaign(id, f"Campaign {slug}", explicit=True, active=active)

    @rule(slug=texts, name=st.none() | st.sampled_from(["New", "Other"]), active=st.none() | st.booleans())
    def update_campaign(self, slug, name, active):
        campaign = self.model.campaigns.get(slug)
        changes = {key: value for key, value in (("name", name), ("active", active)) if value is not None}
        id = campaign.id if campaign else "unknown"
        count = self.send("update_campaign", vendor_id="ads", id=id, **changes).value
        is_changed = campaign and any(getattr(campaign, key) != value for key, value in changes.items())
        assert count == int(bool(is_changed))
        for key, value in changes.items():
            if campaign:
                setattr(campaign, key, value)

    @rule(slug=texts, amount=st.sampled_from([0, 12.5]), begin=dates, days=st.sampled_from([1, 30]))
    def create_outlay(self, slug, amount, begin, days):
        campaign = self.model.campaigns.get(slug)
        end = begin + timedelta(days=days)
        arguments = {"vendor_id": "ads", "amount": amount, "start_date": wire(begin), "end_date": wire(end)}
        if campaign is None:
            self.refused(InvalidRequest, "create_outlay", parentCampaignId="unknown", **arguments)
            return
        id = self.send("create_outlay", parentCampaignId=campaign.id, **arguments).value
        campaign.outlays[id] = (float(amount), begin, end)

    @rule(slug=texts, drawn=st.data(), amount=st.sampled_from([0, 12.5, 3]), begin=st.none() | dates)
    def update_outlay(self, slug, drawn, amount, begin):
        campaign = self.model.campaigns.get(slug)
        if campaign is None or not campaign.outlays:
            return
        id = drawn.draw(st.sampled_from(sorted(campaign.outlays)))
        _, start, end = campaign.outlays[id]
        changed = (float(amount), begin or start, end)
        arguments = {"vendor_id": "ads", "parentCampaignId": campaign.id, "outlayId": id, "amount": amount}
        if begin is not None:
            arguments["start_date"] = wire(begin)
        if changed[1] >= end:
            self.refused(InvalidRequest, "update_outlay", **arguments)
            return
        assert self.send("update_outlay", **arguments).value == int(changed != campaign.outlays[id])
        campaign.outlays[id] = changed

    @rule(slug=texts, drawn=st.data())
    def delete_outlay(self, slug, drawn):
        campaign = self.model.campaigns.get(slug)
        if campaign is None or not campaign.outlays:
            return
        id = drawn.draw(st.sampled_from(sorted(campaign.outlays)))
        self.send("delete_outlay", vendor_id="ads", parentCampaignId=campaign.id, outlayId=id)
        del campaign.outlays[id]

    # Reads

    @rule(id=events)
    def get_event(self, id):
        event = self.model.events.get(id)
        if event is None or not event.user:
            self.refused(NotFound, "get_event", id=id)
        else:
            self.check_event(event)

    def check_event(self, event: Event) -> None:
        record = self.event(event.id)
        metrics = [entry for entry in json.loads(record["metrics"]) if entry["deletedAt"] is None]
        assert record["userId"] == event.user
        assert record["eventType"] == event.type
        assert record["attributable"] == self.model.attributable(event)
        found = {entry["key"]: entry["data"]["current"] for entry in metrics}
        assert found == event.metrics, f"{found} is not {event.metrics} of {event}"
        if event.is_old:
            assert record["eventDate"] == event.date

    @rule(since=st.none() | dates, until=st.none() | dates)
    def search_interactions(self, since, until):
        model = self.model
        found = self.send("search_interactions", since=since and wire(since), until=until and wire(until))
        expected = {
            visit.id
            for visit in model.visits.values()
            if not visit.is_bot
            and (since is None or visit.date >= since)
            and (until is None or visit.date <= until)
        }
        records = found.read().to_pylist()
        assert found.total == len(expected)
        assert {record["_id"] for record in records} == expected
        places = {visit.id: n for user in model.users for n, visit in enumerate(model.visits_of(user), 1)}
        assert all(record["userLifetimeIndex"] == places[record["_id"]] for record in records)
        assert all(record["userId"] == model.visits[record["_id"]].user for record in records)

    @rule()
    def search_users(self):
        model = self.model
        fields = ["eventCount", "interactionCount", "metrics.items.sum", "eventTypesCount.order"]
        records = self.send("search_users", fields=fields).read().to_pylist()
        found = {record.pop("_id"): record for record in records}
        assert found.keys() == model.users
        for user, record in found.items():
            mine = [event for event in model.computed() if event.user == user]
            items = [event.metrics["items"] for event in mine if "items" in event.metrics]
            assert record == {
                "eventCount": len(mine),
                "interactionCount": sum(not visit.is_bot for visit in model.visits_of(user)),
                "metrics.items.sum": sum(items) if items else record["metrics.items.sum"],
                "eventTypesCount.order": sum(event.type == "order" for event in mine),
            }
            assert items or record["metrics.items.sum"] in (None, 0)

    @rule(drawn=st.data())
    def get_merged_user(self, drawn):
        user = self.some_user(drawn, merged=True)
        if user is not None:
            (record,) = self.send("get_user", id=user).read().to_pylist()
            assert record["_id"] == self.model.survivor(user)

    @rule(key=st.sampled_from(["event-count", "items", "score"]))
    def event_insights(self, key):
        period = {"since": "2024-01-01T00:00:00Z", "until": wire(now() + timedelta(days=1))}
        by = {"group_by": "event-type", "interval": "year"}
        records = self.send("event_insights", metrics=[key], **period, **by).read().to_pylist()
        found = {
            (record["identifier"], int(record["interval"])): json.loads(record["values"])[key]
            for record in records
        }
        expected = {place: value for place, value in self.model.sums(key).items() if value}
        assert {place: value for place, value in found.items() if value} == expected

    @rule()
    def interaction_insights(self):
        records = self.send("interaction_insights", group="nodeId").read().to_pylist()
        assert {record["group"]: record["sessionCount"] for record in records} == self.model.by_node()

    @rule()
    def list_trashed_events(self):
        found = self.send("list_trashed_events")
        records = {
            record["_id"]: json.loads(record["errors"])[0]["type"] for record in found.read().to_pylist()
        }
        assert records == {event.id: event.error for event in self.model.events.values() if event.error}

    @rule(since=st.none() | dates, until=st.none() | dates)
    def list_campaigns_and_outlays(self, since, until):
        records = self.send("list_campaigns", vendor_id="ads").read().to_pylist()
        found = {
            record["campaignSlug"]: (record["id"], record["name"], record["explicit"], record["active"])
            for record in records
        }
        campaigns = self.model.campaigns
        assert len(found) == len(records)
        assert found == {slug: (c.id, c.name, c.explicit, c.active) for slug, c in campaigns.items()}
        bounds = {"since": since and wire(since), "until": until and wire(until)}
        for campaign in campaigns.values():
            listed = self.send("list_outlays", vendor_id="ads", parentCampaignId=campaign.id, **bounds).read()
            assert {record["_id"]: record["amount.amount"] for record in listed.to_pylist()} == {
                id: amount
                for id, (amount, begin, end) in campaign.outlays.items()
                if (since is None or end > since) and (until is None or begin <= until)
            }

    def teardown(self) -> None:
        if not hasattr(self, "service"):
            return
        try:
            for event in self.model.computed():
                self.check_event(event)
            for event in self.model.events.values():
                self.check_raw(event)
            self.search_users()
            assert_users_agree(self.service)
        finally:
            self.service.close()

    def check_raw(self, event: Event) -> None:
        if event.content is not None:
            (raw,) = self.send("get_raw_event", id=event.id).read().to_pylist()
            assert json.loads(raw["data"]) == event.content["data"]
            assert raw["nonce"] == event.nonce


@pytest.mark.large
@pytest.mark.slow
def test_any_sequence_of_operations_leaves_what_the_model_says():
    run_state_machine_as_test(
        ProjectMachine,
        settings=settings(
            max_examples=12,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
