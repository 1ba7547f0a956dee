"""The examination of a project: each check finds what it is for, and nothing else."""

import random
import re

import pytest
from support.order_events import declare_order, order
from support.service_records import hex_id, send, table, uuid, visit

from attrib_ds import schema
from attrib_ds.errors import Unavailable
from attrib_ds.service import Service
from attrib_ds.service.consistency_check import RULES, run_checks

ANNA, BEN = hex_id(900), hex_id(901)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a project with records of every kind."""
    path = tmp_path_factory.mktemp("sound") / "shop.duckdb"
    service = Service.open("shop", path)
    declare_order(service)
    send(service, "create_integration", vendor_id="ads", name="Ads")
    campaign = send(service, "create_campaign", vendor_id="ads", campaign_slug="brand", name="Brand").value
    send(service, "create_campaign", vendor_id="ads", campaign_slug="shoes", name="Shoes")
    period = {"start_date": "2025-01-01T00:00:00Z", "end_date": "2025-02-01T00:00:00Z"}
    send(service, "create_outlay", vendor_id="ads", campaign_id=campaign, amount=1, **period)
    for number in range(4):
        send(service, "create_event_sync", **order(f"n{number}", data={"confirmed": number % 2}))
    id = send(service, "create_event_sync", **order("last", data={"mail": "ben@example.com"})).value
    send(service, "update_event_state", id=id, storage_key="returned", value=1)
    send(service, "update_event_state", id=id, storage_key="returned", value=0)
    send(service, "create_event", **order("trash", data={"items": "many"}))
    for number in range(2):
        offline = {"date": f"2025-01-0{number + 1}T00:00:00Z", "external_id": f"sale-{number}"}
        send(
            service,
            "create_offline_interaction",
            userData={"email": "anna@example.com"},
            nodeData={"vendorId": "ads", "campaignSlug": "brand"},
            **offline,
        )
    visits = [
        visit(1, userId=ANNA),
        visit(2, userId=ANNA, startDate="2025-02-01T00:00:00Z"),
        visit(3, userId=BEN),
    ]
    send(service, "load_records", resource="interactions", source=table(*visits))
    hits = [{"id": uuid(n), "sessionId": hex_id(1), "serverDate": "2025-01-31T12:00:00Z"} for n in (1, 2)]
    send(service, "load_records", resource="hits", source=table(*hits))
    nodes = [{"_id": "leaf", "parentId": "ads", "type": "adset", "name": "Leaf"}]
    send(service, "load_records", resource="nodes", source=table(*nodes))
    service.close()
    return path.read_bytes()


class Undone(Exception):
    pass


@pytest.fixture(scope="module")
def project(sound, tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / "shop.duckdb"
    path.write_bytes(sound)
    service = Service.open("shop", path)
    yield service
    service.close()


@pytest.fixture
def damaged(project):
    """Change a sound project by SQL, and return its findings as pairs of check and problem, with the ids."""

    def findings(*statements):
        found = []

        def change(connection):
            for statement in statements:
                connection.execute(statement)
            found[:] = run_checks(connection).to_pylist()
            raise Undone

        with pytest.raises(Undone):
            project._store.write(change)
        return {(row["check"], row["problem"]): row for row in found}

    return findings


@pytest.mark.large
@pytest.mark.slow
def test_a_sound_project_has_no_findings(damaged):
    assert damaged() == {}


@pytest.mark.slow
def test_the_operation_answers_findings(project):
    found = send(project, "check_project").read()
    assert (found.num_rows, found.schema) == (0, schema.FINDING)


@pytest.mark.large
@pytest.mark.slow
def test_the_sample_is_sound(sample):
    assert sample.send("check_project").read().num_rows == 0


#: Damage, and the findings it leads to: check, part of the problem, how many.
FIRST = "(SELECT min(_id) FROM {})"
DAMAGES = {
    "an interaction twice": (
        f"INSERT INTO interactions SELECT * FROM interactions WHERE _id = '{hex_id(3)}'",
        [("unique", "interactions: _id", 1), ("lifetimes", "position", 1)],
    ),
    "an id missing": ("UPDATE outlays SET _id = NULL", [("unique", "outlays: _id", 1)]),
    "a hit twice": (
        f"INSERT INTO hits SELECT * FROM hits WHERE id = '{uuid(1)}'",
        [("unique", "hits: id", 1), ("hits", "hitCount", 1)],
    ),
    "two metrics of a key": (
        "UPDATE metrics SET key = 'items' WHERE key IN ('confirmed', 'event-count') "
        "AND eventId = (SELECT min(eventId) FROM metrics WHERE key = 'confirmed' AND number = 0)",
        [("unique", "metrics: eventId and key", 1), ("metrics", "not counted once", 1)],
    ),
    "two users of an email": (
        "INSERT INTO identities (kind, value, userId) SELECT kind, value, (SELECT max(_id) FROM users) FROM identities "
        "WHERE value = 'anna@example.com'",
        [("unique", "identities: kind and value", 1)],
    ),
    "two event types of a reference": (
        "INSERT INTO event_types SELECT * REPLACE ('ffff' AS _id) FROM event_types",
        [("unique", "event_types: reference", 1)],
    ),
    "a slug twice": (
        "UPDATE campaigns SET campaignSlug = 'brand'",
        [("unique", "campaigns: integrationId and campaignSlug", 1)],
    ),
    "an external id twice": (
        "UPDATE interactions SET externalId = 'sale-0' WHERE type = 'offline'",
        [("unique", "interactions: integrationId and externalId", 1)],
    ),
    "a vendor twice": (
        "INSERT INTO integrations SELECT * REPLACE ('x' AS _id) FROM integrations",
        [("unique", "integrations: vendorId", 1)],
    ),
    "a hit in the trash": (
        "INSERT INTO trashed_hits (id, reason) VALUES ('1', 'took more than 1 s to read')",
        [("trash", "could not be read", 1)],
    ),
    "a setting twice": (
        "INSERT INTO settings VALUES ('a', '1'), ('a', '2')",
        [("unique", "settings: name", 1)],
    ),
    "another project": (
        "UPDATE hits SET projectId = 'other' WHERE id = (SELECT min(id) FROM hits)",
        [("project", "hits", 1)],
    ),
    "a raw event with no outcome": (
        "DELETE FROM trashed_events",
        [("outcomes", "exactly one", 1)],
    ),
    "a raw event with two outcomes": (
        "INSERT INTO pending_events SELECT min(_id) FROM events",
        [("outcomes", "exactly one", 1)],
    ),
    "a pending event that nobody sent": (
        "INSERT INTO pending_events VALUES ('x')",
        [("outcomes", "pending_events: _id", 1)],
    ),
    "a trashed event that nobody sent": (
        "INSERT INTO trashed_events SELECT * REPLACE ('x' AS _id) FROM trashed_events",
        [("outcomes", "trashed_events: _id", 1)],
    ),
    "a metric of no event": (
        "INSERT INTO metrics SELECT * REPLACE ('x' AS _id, 'y' AS eventId, 'items' AS key) FROM metrics LIMIT 1",
        [("metrics", "metrics: eventId", 1)],
    ),
    "a past metric of no event": (
        "UPDATE metric_history SET eventId = 'x' WHERE key = 'returned'",
        [("metrics", "metric_history: eventId", 1)],
    ),
    "an event counted twice": (
        "UPDATE metrics SET number = 2 WHERE key = 'event-count' AND eventId = (SELECT min(_id) FROM events)",
        [("metrics", "not counted once", 1)],
    ),
    "an event not counted": (
        "DELETE FROM metrics WHERE key = 'event-count'",
        [("metrics", "not counted once", 5)],
    ),
    "an amount of an unknown currency": (
        "UPDATE metrics SET dataType = 'currency', amount = 1, currency = 'EURO' WHERE eventId = "
        "(SELECT min(_id) FROM events) AND key = 'event-count'",
        [("currencies", "not one of ISO 4217", 1)],
    ),
    "a delay that is wrong": (
        "UPDATE metrics SET number = 9 WHERE key = 'state-delay-confirmed'",
        [("metrics", "delay", 2)],
    ),
    "a delay that is missing": (
        "DELETE FROM metrics WHERE key = 'state-delay-confirmed'",
        [("metrics", "delay", 2)],
    ),
    "a delay left over": (
        "UPDATE metrics SET number = 0 WHERE key = 'confirmed'",
        [("metrics", "delay", 2)],
    ),
    "a user not listed": (
        f"DELETE FROM users WHERE _id = '{BEN}'",
        [("users", "not listed", 1)],
    ),
    "an event of no user": (
        "UPDATE events SET userId = NULL WHERE _id = (SELECT min(_id) FROM events)",
        [("users", "not listed", 1)],
    ),
    "a user of nothing": ("INSERT INTO users VALUES ('x', now())", [("users", "without", 1)]),
    "a place in the wrong order": (
        f"UPDATE interactions SET userLifetimeIndex = 3 - userLifetimeIndex WHERE userId = '{ANNA}'",
        [("lifetimes", "position", 2)],
    ),
    "an identity of nobody": (
        "UPDATE identities SET userId = 'x' WHERE value = 'anna@example.com'",
        [("identities", "userId", 1)],
    ),
    "merged into nobody": (
        "INSERT INTO merged_users VALUES ('a', 'b', now(), NULL)",
        [("merged-users", "refers to no record", 1)],
    ),
    "a parent that is not there": (
        "UPDATE nodes SET parentId = 'x' WHERE _id = 'leaf'",
        [("nodes", "parentId", 1), ("nodes", "path", 1)],
    ),
    "a path of other parents": (
        "UPDATE nodes SET path = ['x'] WHERE _id = 'leaf'",
        [("nodes", "path", 1)],
    ),
    "parents in a loop": (
        "UPDATE nodes SET parentId = 'leaf' WHERE _id = 'ads'",
        [("nodes", "path", 2)],
    ),
    "an interaction of no node": (
        f"UPDATE interactions SET nodeId = 'x' WHERE _id = '{hex_id(1)}'",
        [("nodes", "interactions: nodeId", 1)],
    ),
    "an outlay of no campaign": (
        "UPDATE outlays SET campaignId = 'x'",
        [("nodes", "outlays: campaignId", 1)],
    ),
    "a campaign without its node": (
        "DELETE FROM nodes WHERE campaignSlug = 'shoes'",
        [("nodes", "campaigns: id", 1)],
    ),
    "a campaign of no integration": (
        "UPDATE campaigns SET integrationId = 'x' WHERE campaignSlug = 'shoes'",
        [("campaigns", "integrationId", 1)],
    ),
    "a hit of no session": (
        f"UPDATE hits SET sessionId = 'x' WHERE id = '{uuid(2)}'",
        [("hits", "sessionId", 1), ("hits", "hitCount", 1)],
    ),
    "hits counted wrong": (
        f"UPDATE interactions SET hitCount = 3 WHERE _id = '{hex_id(1)}'",
        [("hits", "hitCount", 1)],
    ),
    "a first hit of another session": (
        f"UPDATE interactions SET firstHitId = '{uuid(9)}' WHERE _id = '{hex_id(1)}'",
        [("hits", "hitCount", 1)],
    ),
    "no JSON": (
        "UPDATE trashed_events SET errors = '{'",
        [("json", "trashed_events.errors", 1)],
    ),
    "JSON that only DuckDB takes": (
        "UPDATE events SET event = '{\"a\": NaN}' WHERE _id = (SELECT min(_id) FROM events)",
        [("json", "events.event", 1)],
    ),
    "a comma too many": (
        "UPDATE events SET user = '{\"a\": [1,]}' WHERE _id = (SELECT min(_id) FROM events)",
        [("json", "events.user", 1)],
    ),
    "a column too many": (
        "ALTER TABLE users ADD COLUMN name VARCHAR",
        [("definitions", "differ from the definitions", 1)],
    ),
    "a nonce that may be there twice": (
        (
            "CREATE TABLE other AS FROM raw_events",
            "DROP TABLE raw_events",
            "ALTER TABLE other RENAME TO raw_events",
        ),
        [("definitions", "differ from the definitions", 1)],
    ),
    "a table missing": ("DROP TABLE audit", [("definitions", "differ from the definitions", 1)]),
}


@pytest.mark.few(8)
@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found(damaged, name):
    statements, expected = DAMAGES[name]
    found = damaged(*([statements] if isinstance(statements, str) else statements))
    for check, part, count in expected:
        (row,) = [row for (named, problem), row in found.items() if named == check and part in problem]
        assert row["records"] == count
        assert 1 <= len(row["examples"]) <= 5
    assert len(found) == len(expected)


def test_every_rule_is_tested():
    tested = {(check, part) for _, expected in DAMAGES.values() for check, part, _ in expected}
    for rule in RULES:
        if rule.name not in {"unique", "project", "json"}:
            assert any(check == rule.name and part in rule.problem for check, part in tested), rule


@pytest.mark.slow
def test_examples_are_the_first_ids(damaged):
    found = damaged("INSERT INTO pending_events SELECT 'x' || range FROM range(9)")
    (row,) = found.values()
    assert (row["records"], row["examples"]) == (9, ["x0", "x1", "x2", "x3", "x4"])


@pytest.mark.slow
def test_findings_identify_records_without_text_ids(damaged):
    """A version is identified by its event type."""
    found = damaged("INSERT INTO event_type_versions SELECT * FROM event_type_versions")
    assert {row["check"] for row in found.values()} == {"unique"}


@pytest.mark.large
@pytest.mark.slow
def test_a_damaged_file_is_reported(sound, tmp_path):
    """Whatever block is hit: the file opens and the check tells it, or the opening does."""
    path = tmp_path / "shop.duckdb"
    reports = set()
    randomness = random.Random(1)
    for start in range(12_288, len(sound), 262_144):
        content = bytearray(sound)
        # At random: the checksum of DuckDB is blind to equal words that change an even number of times.
        content[start + 64 : start + 512] = randomness.randbytes(448)
        path.write_bytes(content)
        try:
            service = Service.open("shop", path)
        except Unavailable as error:
            reports.add("opening" if "restore" in str(error) else str(error))
            continue
        findings = send(service, "check_project").read().to_pylist()
        for finding in findings:
            assert finding["check"] == "readable"
            assert "restore a backup" in finding["problem"]
            assert re.search("checksum", finding["examples"][0])
            reports.add("check")
        service.close()
    assert reports == {"opening", "check"}
