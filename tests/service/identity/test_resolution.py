"""Whoever sends events in whatever order and batches, their users are those of a model in plain Python."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.identified_users import declare
from support.law_examples import examples
from support.service_records import hex_id, send, table, visit
from support.user_invariants import assert_users_agree, rows_of

from attrib_ds.service import Service

#: Who sends an event: browser, email and the id of a vendor, each known or not.
EVENT = st.tuples(
    st.sampled_from([None, "t1", "t2", "t3", "t4"]),
    st.sampled_from([None, None, "a@b.no", "c@d.no", "e@f.no"]),
    st.sampled_from([None, None, None, "v1", "v2"]),
)
#: Whose interaction, by which browser, before any event.
VISIT = st.tuples(st.integers(1, 3), st.sampled_from([None, "t1", "t2", "t3"]))


def people_of(visits, events):
    """Return a label per visit and per event, equal for one person, by relabelling all that is known."""
    labels = [f"loaded {user}" for user, _ in visits]
    holder = {}
    for (_, tracker), label in zip(visits, labels, strict=True):
        if tracker is not None:
            holder["tracker", tracker] = label  # The last who was seen with it.

    def has_name(label):
        return any(kind != "tracker" and held == label for (kind, _), held in holder.items())

    for number, (tracker, email, vendor) in enumerate(events):
        names = [(k, v) for k, v in (("email", email), ("vendor", vendor)) if v is not None]
        at_browser = holder.get(("tracker", tracker))
        me = next((holder[name] for name in names if name in holder), None)
        if me is not None and at_browser is not None and not has_name(at_browser):
            labels = [me if label == at_browser else label for label in labels]
            holder = {key: me if held == at_browser else held for key, held in holder.items()}
        if me is None and at_browser is not None and not (names and has_name(at_browser)):
            me = at_browser
        me = me or f"sent {number}"
        labels.append(me)
        for name in names:
            holder.setdefault(name, me)
        if tracker is not None:
            holder["tracker", tracker] = me
    return labels


def partition(labels):
    groups = {}
    for position, label in enumerate(labels):
        groups.setdefault(label, []).append(position)
    return sorted(groups.values())


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    visits=st.lists(VISIT, max_size=5),
    batches=st.lists(st.lists(EVENT, min_size=1, max_size=6), min_size=1, max_size=4),
)
def test_g147_users_are_those_of_the_model(visits, batches):
    events = [event for batch in batches for event in batch]
    service = Service.open("shop", ":memory:")
    try:
        declare(service)
        if visits:
            records = [
                visit(
                    number,
                    userId=hex_id(user),
                    startDate=f"2025-01-01T00:00:{number:02}Z",
                    userData=f'{{"trackerId": "{tracker}"}}' if tracker else None,
                )
                for number, (user, tracker) in enumerate(visits, 1)
            ]
            send(service, "load_records", resource="interactions", source=table(*records))
        ids = []
        for batch in batches:
            sent = [
                {
                    "projectId": "shop",
                    "eventType": "view",
                    "nonce": f"n{len(ids) + number}",
                    "trackerId": tracker,
                    "eventDate": "2025-01-31T12:00:00Z",
                    "data": {"email": email, "vendorUserId": vendor},
                }
                for number, (tracker, email, vendor) in enumerate(batch)
            ]
            ids += send(service, "create_events", events=sent, wait=True).value
        users = dict(rows_of(service, "SELECT _id, userId FROM events"))
        visitors = [user for (user,) in rows_of(service, "SELECT userId FROM interactions ORDER BY _id")]
        found = [*visitors, *(users[id] for id in ids)]
        expected = people_of(visits, events)
        assert partition(found) == partition(expected)
        assert_users_agree(service)
        label_of = dict(zip(found, expected, strict=True))
        seen = Counter(expected[: len(visits)])
        counts = Counter(expected[len(visits) :])
        for user in (
            send(service, "search_users", fields=["eventCount", "interactionCount"]).read().to_pylist()
        ):
            label = label_of[user["_id"]]
            assert (user["eventCount"], user["interactionCount"]) == (counts[label], seen[label])
    finally:
        service.close()
