"""Mirrors agree with their sources, whatever happens there or to the machine."""

import json
import logging
import random
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from datetime import UTC, timedelta

import pandas as pd
import pytest
from support.service_records import hex_id, order, table, uuid, visit
from support.user_invariants import assert_users_agree, rows_of

import attrib_ds as at
from attrib_ds import errors, mirroring
from attrib_ds.commands.cli import main
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running
from attrib_ds.service.store.tables import TABLES

FIELDS = [
    {"type": "email", "entity": "user", "storageKey": "email", "discriminant": True},
    {"type": "currency", "entity": "event", "storageKey": "turnover", "optional": True},
    {"type": "state", "entity": "event", "storageKey": "won", "ingestionKey": None},
]
LONG_AGO = {"ingestedAt": "2025-02-15T00:00:00Z"}
PERIOD = {"since": "2025-01-01T00:00:00Z", "until": "2025-12-31T00:00:00Z"}
#: Users of the hand-made project.
ANNA, BEN, CARL = hex_id(901), hex_id(902), hex_id(903)


def fill(shop):
    """Give a project what it may have, all of it long ago except for what was sent."""
    shop.send("create_integration", vendor_id="ads", name="Ads", currency="EUR")
    spring = at.create_campaign(shop, "ads", "spring", name="Spring")
    march = {"start_date": "2025-03-01T00:00:00Z", "end_date": "2025-04-01T00:00:00Z"}
    for amount in (120, 80):
        at.create_outlay(shop, "ads", spring, amount=amount, **march)
    at.create_event_type(shop, "order", name="Order", fields=FIELDS)
    at.create_event_type(shop, "call", name="Call")
    at.admin.archive_event_type(shop, "call")
    at.admin.set_rates(
        shop, pd.DataFrame({"currency": ["USD"], "date": ["2025-01-01T00:00:00Z"], "rate": [0.9]})
    )
    visits = [
        visit(1, userId=ANNA, nodeId=spring, startDate="2025-01-01T10:00:00.123456Z", userData='{"email":"anna@example.com"}'),
        visit(2, userId=ANNA, nodeId="letter", startDate="2025-01-05T10:00:00Z", duration=61.5, geo__city="Oslo"),
        visit(3, userId=ANNA, nodeId="direct", startDate="2025-01-05T10:00:00Z", isBot=True),
        visit(4, userId=BEN, nodeId="letter", startDate="2025-01-05T10:00:00Z", trafficFilterId="office"),
        visit(5, userId=BEN, nodeId=spring, startDate="2025-01-07T10:00:00Z"),
        visit(6, userId=CARL, nodeId="letter", startDate="2025-01-09T10:00:00Z", type="offline"),
    ]  # fmt: skip
    orders = [
        order(1, userId=ANNA, eventDate="2025-01-06T10:00:00Z", **{"states.won": 1, "statistics.turnover.amount": "90.5"}),
        order(2, userId=BEN, eventDate="2025-01-08T10:00:00Z", **{"states.won": 0, "statistics.turnover.amount": "10"}),
        order(3, userId=BEN, eventDate="2025-01-20T10:00:00Z", **{"states.won": 1, "statistics.turnover.amount": "7.25"}),
    ]  # fmt: skip
    made = {"createdAt": "2025-02-15T00:00:00Z", "updatedAt": "2025-02-15T00:00:00Z"}
    orders = [each | made | {"statistics.turnover.currency": "EUR"} for each in orders]
    nodes = [{"_id": name, "type": "channel", "name": name.title()} for name in ("letter", "direct")]
    hits = [{"id": uuid(50), "sessionId": hex_id(2), "serverDate": "2025-01-05T10:00:00Z"}]
    at.load(
        shop,
        nodes=table(*nodes),
        interactions=table(*(each | LONG_AGO for each in visits)),
        hits=table(*hits),
        events=table(*orders),
    )
    buy(shop, "1", "dora@example.com")


def buy(shop, nonce, email, date="2025-01-10T12:00:00Z"):
    """Send an order and return its id."""
    sent = {"nonce": nonce, "eventDate": date, "data.email": email, "data.turnover.amount": 5.5, "data.turnover.currency": "USD"}  # fmt: skip
    (result,) = at.send_events(shop, pd.DataFrame([sent]), event_type="order").to_dict("records")
    return result["id"]


def happen(shop):
    """Let happen to a project whatever a mirror has to notice."""
    buy(shop, "2", "dora@example.com", "2025-02-01T12:00:00Z")
    buy(shop, "3", "ben@example.com", "2025-02-02T12:00:00Z")
    updates = pd.DataFrame({"id": [uuid(1), uuid(2)], "storageKey": "won", "value": [0, 1]})
    assert set(at.update_states(shop, updates)["status"]) == {"updated"}
    at.load(shop, interactions=table(visit(7, userId=BEN, nodeId="late", startDate="2025-01-02T10:00:00Z")))
    grown = visit(
        2, userId=ANNA, nodeId="letter", startDate="2025-01-05T10:00:00Z", duration=300, geo__city="Oslo"
    )
    grown |= LONG_AGO | {"updateDate": pd.Timestamp.now("UTC")}
    shop.send("load_records", resource="interactions", source=table(grown), replace=True)
    for number in (50, 52, 51):
        late = {"id": uuid(number), "sessionId": hex_id(2), "serverDate": f"2025-01-05T10:0{number - 50}:00Z"}
        at.load(shop, hits=table(late))
    at.admin.merge_users(shop, ANNA, CARL)
    spring = at.list_campaigns(shop, "ads")["id"].item()
    gone = at.list_outlays(shop, "ads", spring)["_id"].iloc[0]
    at.admin.delete_outlay(shop, "ads", spring, gone)
    at.update_campaign(shop, "ads", spring, name="Spring sale")
    at.create_campaign(shop, "ads", "summer", name="Summer")
    more = [*FIELDS, {"type": "string", "entity": "event", "storageKey": "coupon", "optional": True}]
    at.admin.update_event_type(shop, "order", name="Sale", fields=more)
    at.admin.restore_event_type(shop, "call")
    at.admin.set_rates(shop, pd.DataFrame({"currency": ["USD", "GBP"], "date": "2025-01-01T00:00:00Z", "rate": [None, 1.2]}))  # fmt: skip


EVERYTHING = list(mirroring._ALL_COLUMNS)
FIELDS_OF_USERS = [
    "fields.email", "eventCount", "eventTypesCount.order", "metrics.turnover.sum", "metrics.won.sum",
    "interactionCount", "firstInteractionDate", "lastEventDate", "createdAt",
]  # fmt: skip


def visits(project):
    return at.search_interactions(project, columns=EVERYTHING, filtered=None, bots=None)


def reads(project):
    """Return what is read of a project, by what it is."""
    campaigns = at.list_campaigns(project, "ads")
    users = at.search_users(project, columns=FIELDS_OF_USERS)
    found = {
        "nodes": at.list_nodes(project),
        "event types": at.list_event_types(project),
        "archived event types": at.list_event_types(project, archived=True),
        "campaigns": campaigns,
        "rates": at.admin.list_rates(project),
        "interactions": visits(project),
        "users": users,
        "visits by month": at.interaction_insights(project, group_by="nodeId", interval="month"),
        "orders by month": at.event_insights(
            project, metrics=["event-count", "turnover"], interval="month", **PERIOD
        ),
    }
    for id in campaigns["id"]:
        found[f"outlays of {id}"] = at.list_outlays(project, "ads", id)
    for id in users["_id"]:
        found[f"events of {id}"] = at.list_user_events(project, id)
    for id in found["interactions"]["firstHitId"].dropna():
        found[f"hits of {id}"] = at.list_hits(project, id)
    return found


def credits(project, event_type="order", level=None):
    paths = at.conversion_paths(project, event_type=event_type, statistic="turnover", level=level)
    return at.attribute(paths, ["last_touch", "linear"])


def assert_agrees(shop, mirror):
    """Compare all that can be read of two projects, and what is computed from it."""
    expected, found = reads(shop), reads(mirror)
    assert found.keys() == expected.keys()
    for name, frame in expected.items():
        pd.testing.assert_frame_equal(found[name], frame, obj=name)
    pd.testing.assert_frame_equal(credits(mirror), credits(shop))
    assert_users_agree(mirror.transport)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "shop.duckdb"
    with at.connect("shop", path=path) as project:
        fill(project)
    return path


@pytest.fixture
def shop(filled, tmp_path):
    path = tmp_path / "there" / "shop.duckdb"
    path.parent.mkdir()
    shutil.copy(filled, path)
    with at.connect("shop", path=path) as project:
        yield project


@pytest.fixture(params=["embedded", "remote"])
def source(request, shop, tmp_path):
    """The project, as itself or as a service shows it."""
    if request.param == "embedded":
        yield shop
        return
    with ExitStack() as stack:
        yield stack.enter_context(remote(shop, tmp_path, stack))


def remote(shop, tmp_path, stack, **others):
    key = tmp_path / "there" / "key.json"
    create_key(tmp_path / "there", key, projects=None)
    url = stack.enter_context(running(tmp_path / "there", options=ServerOptions(rate_limits=None)))
    return at.connect("shop", url=url, key=key, **others)


@contextmanager
def mirrored_without(operation, shop, tmp_path):
    """Yield a mirror of a service that lacks an operation."""
    routes = tmp_path / "routes.toml"
    routes.write_text(f'[{operation}]\npath = "/projects/{{projectId}}/nowhere"\n')
    with (
        ExitStack() as stack,
        remote(shop, tmp_path, stack, routes=routes) as source,
        at.sync(source, ":memory:") as mirror,
    ):
        yield mirror


@pytest.mark.large
@pytest.mark.slow
def test_a_mirror_agrees_with_its_source_and_catches_up(shop, source, tmp_path):
    for change in (lambda _: None, happen):
        change(shop)
        with at.sync(source, tmp_path / "mirror.duckdb", overlap="1us", hits=True, personal=True) as mirror:
            assert_agrees(shop, mirror)


def contents(mirror):
    """Return every row of the tables of data."""
    return {
        name: sorted(rows_of(mirror.transport, f"SELECT * FROM {name}"), key=repr)
        for name in TABLES
        if name not in ("settings", "meta", "audit")
    }


@pytest.mark.large
@pytest.mark.slow
def test_twice_is_once(shop, tmp_path, caplog):
    caplog.set_level(logging.INFO, "attrib_ds.mirroring")
    found = []
    for _ in range(2):
        with at.sync(shop, tmp_path / "mirror.duckdb", overlap="365D", hits=True, personal=True) as mirror:
            found.append(contents(mirror))
    assert found[0] == found[1]
    first, second = (record.message for record in caplog.records)
    assert "6 interactions" in first
    assert "4 events" in first
    assert not any(digit in second.partition("duckdb: ")[2] for digit in "123456789")


@pytest.mark.large
@pytest.mark.slow
def test_only_what_has_changed_is_read_again(shop, tmp_path):
    at.sync(shop, tmp_path / "mirror.duckdb", overlap="1us").close()
    # A change that tells nobody, so that it is seen only by those who read it.
    shop.transport._store.write(
        lambda connection: connection.execute("UPDATE interactions SET referrer = 'elsewhere'")
    )
    buy(shop, "4", "ben@example.com")
    with at.sync(shop, tmp_path / "mirror.duckdb", overlap="1us") as mirror:
        assert at.search_interactions(mirror, filtered=None, bots=None)["referrer"].isna().all()
        assert len(at.search_users(mirror, columns=[])) == len(at.search_users(shop, columns=[]))
    with at.sync(shop, tmp_path / "mirror.duckdb", overlap="1us", since="2025-01-09T10:00:00Z") as mirror:
        read = at.search_interactions(mirror, filtered=None, bots=None).set_index("_id")["referrer"].notna()
        assert read.sort_index().tolist() == [False, False, False, True, True, True]


def put_in(shop, **arriving):
    """Put an interaction in that nothing tells when it was noted, as late as it may be."""
    at.load(shop, interactions=table(visit(9, userId=CARL, **arriving)))
    shop.transport._store.write(
        lambda connection: connection.execute(
            "UPDATE interactions SET ingestedAt = NULL, createdAt = NULL, updateDate = NULL WHERE _id = ?",
            [hex_id(9)],
        )
    )


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(("overlap", "is_there"), [("1us", False), ("3D", True)])
def test_what_arrives_late_is_read_within_the_overlap(shop, tmp_path, overlap, is_there):
    file = tmp_path / "mirror.duckdb"
    at.sync(shop, file, until="2025-01-08T00:00:00Z").close()
    put_in(shop, startDate="2025-01-06T10:00:00Z")
    with at.sync(shop, file, overlap=overlap, until="2025-01-08T00:00:00Z") as mirror:
        assert (hex_id(9) in visits(mirror)["_id"].tolist()) == is_there


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(("overlap", "is_there"), [("1us", False), ("3D", True)])
def test_what_was_noted_by_a_clock_that_is_behind_is_read_within_the_overlap(
    shop, tmp_path, overlap, is_there
):
    file = tmp_path / "mirror.duckdb"
    at.sync(shop, file).close()
    put_in(shop, startDate="2025-01-06T10:00:00Z")
    shop.transport._store.write(
        lambda connection: connection.execute(
            "UPDATE interactions SET createdAt = (now() AT TIME ZONE 'UTC') - INTERVAL 1 DAY WHERE _id = ?",
            [hex_id(9)],
        )
    )
    with at.sync(shop, file, overlap=overlap) as mirror:
        assert (hex_id(9) in visits(mirror)["_id"].tolist()) == is_there


@pytest.mark.parametrize(
    ("scope", "since", "expected"),
    [
        # Never mirrored: the whole period, and nothing older that has changed.
        ("new", None, (None, None, None)),
        ("new", "02-15", ("02-15", None, "02-15")),
        # Mirrored until February 10 by a run that began on February 20: two days more of both.
        (None, None, ("02-08", "02-18", None)),
        (None, "02-01", ("02-01", "02-18", None)),
        ("01-01", "02-15", ("02-08", "02-18", "01-01")),
        ("02-05", "01-15", ("01-15", "02-18", "01-15")),
    ],
)
def test_what_a_run_reads_again(scope, since, expected):
    def instant(day):
        return day and f"2025-{day}T00:00:00.000Z"

    state = {}
    if scope != "new":
        state |= {"through": instant("02-10"), "changed": instant("02-20"), "scope": instant(scope)}
    period = {"since": instant(since), "until": None}
    run = mirroring.plan_run(state, period, timedelta(days=2))
    assert (run["since"], run["changed"], run["scope"]) == tuple(map(instant, expected))
    # An interrupted run of the same period goes on; of another one, a new run begins.
    assert mirroring.plan_run(state | {"run": run}, period, timedelta(days=2)) is run
    other = mirroring.plan_run(state | {"run": run}, period | {"until": instant("03-01")}, timedelta(days=2))
    assert other["asked"]["until"] == instant("03-01")


@pytest.mark.large
@pytest.mark.slow
def test_bounds_of_a_period_are_in_it(shop):
    dates = rows_of(shop.transport, "SELECT DISTINCT eventDate FROM events ORDER BY eventDate")
    for (date,) in dates:
        moment = date.replace(tzinfo=UTC)
        with at.sync(shop, ":memory:", since=moment, until=moment) as mirror:
            found = rows_of(mirror.transport, "SELECT DISTINCT eventDate FROM events")
            assert found == [(date,)]


@pytest.mark.large
@pytest.mark.slow
def test_everybody_in_a_period_is_dated_as_at_the_source(shop):
    # Bots count for nobody, and make users all the same.
    bot = visit(10, userId=hex_id(904), nodeId="letter", startDate="2025-01-05T12:00:00Z", isBot=True)
    at.load(shop, interactions=table(bot | LONG_AGO))
    shop.transport._store.write(
        lambda connection: connection.execute(
            "UPDATE users SET createdAt = TIMESTAMP '2025-03-01' WHERE _id = ?", [hex_id(904)]
        )
    )
    created = at.search_users(shop, columns=["createdAt"]).set_index("_id")["createdAt"]
    for period in (
        {"since": "2025-01-05T00:00:00Z", "until": "2025-01-05T23:00:00Z"},
        {"until": "2025-01-07T23:00:00Z"},
    ):
        with at.sync(shop, ":memory:", **period) as mirror:
            found = at.search_users(mirror, columns=["createdAt"]).set_index("_id")["createdAt"]
        assert len(found) > 0
        pd.testing.assert_series_equal(found, created[found.index], check_freq=False)


@pytest.mark.slow
def test_users_outside_of_a_period_are_not_asked_for(shop):
    asked = []

    class Noting:
        def __getattr__(self, name):
            return getattr(shop.transport, name)

        def send(self, operation, request):
            answer = shop.transport.send(operation, request)
            if operation.name == "search_users":
                asked.extend(answer.read()["_id"].to_pylist())
            return answer

    with at.sync(at.Project("shop", Noting()), ":memory:", since="2025-01-20T00:00:00Z") as mirror:
        assert len(at.search_users(mirror, columns=[])) > 0
    assert 0 < len(asked) < len(at.search_users(shop, columns=[]))


@pytest.mark.large
@pytest.mark.slow
def test_identity_data_and_hits_come_when_asked_for(shop, tmp_path):
    file = tmp_path / "mirror.duckdb"
    with at.sync(shop, file) as mirror:
        seen = at.search_interactions(mirror, columns=["userData", "hitCount"], filtered=None, bots=None)
        assert seen["userData"].isna().all()
        assert rows_of(mirror.transport, "SELECT count(*) FROM hits") == [(0,)]
        assert seen["hitCount"].max() == 1
        assert_users_agree(mirror.transport)
    at.sync(shop, file, hits=True, personal=True).close()
    with at.sync(shop, file) as mirror:
        pd.testing.assert_frame_equal(visits(mirror), visits(shop))
        (opening,) = visits(shop)["firstHitId"].dropna()
        pd.testing.assert_frame_equal(at.list_hits(mirror, opening), at.list_hits(shop, opening))
        assert_users_agree(mirror.transport)
    with pytest.raises(errors.InvalidRequest, match="personal: the mirror holds them"):
        at.sync(shop, file, personal=False)


@pytest.mark.large
@pytest.mark.slow
def test_a_period_is_mirrored_and_then_a_longer_one(shop, tmp_path):
    file = tmp_path / "mirror.duckdb"

    def dated(**period):
        with at.sync(shop, file, overlap="1us", **period) as mirror:
            dates = visits(mirror)["startDate"]
            events = rows_of(mirror.transport, "SELECT CAST(eventDate AS DATE) FROM events")
            assert_users_agree(mirror.transport)
            return sorted(dates.dt.day), sorted(date.day for (date,) in events)

    assert dated(since="2025-01-05T00:00:00Z", until="2025-01-07T23:00:00Z") == ([5, 5, 5, 7], [6])
    assert dated(until="2025-01-09T12:00:00Z") == ([5, 5, 5, 7, 9], [6, 8])
    assert dated() == ([5, 5, 5, 7, 9], [6, 8, 10, 20])
    # What is older than the mirror goes back stays out, even when it changes.
    at.update_states(shop, pd.DataFrame({"id": [uuid(1)], "storageKey": "won", "value": [0]}))
    at.load(shop, interactions=table(visit(8, userId=BEN, startDate="2025-01-03T10:00:00Z")))
    assert dated() == ([5, 5, 5, 7, 9], [6, 8, 10, 20])
    assert dated(since="2025-01-02T00:00:00Z") == ([3, 5, 5, 5, 7, 9], [6, 8, 10, 20])


@pytest.mark.large
@pytest.mark.slow
def test_pages_end_inside_of_a_moment(shop, monkeypatch):
    monkeypatch.setattr(mirroring, "_INTERACTIONS", 2)
    monkeypatch.setattr(mirroring, "_BATCH", 2)
    with at.sync(shop, ":memory:", personal=True) as mirror:
        pd.testing.assert_frame_equal(visits(mirror), visits(shop))
        people = [at.search_users(each, columns=FIELDS_OF_USERS) for each in (mirror, shop)]
        pd.testing.assert_frame_equal(*people)


@pytest.mark.filterwarnings("ignore:.* has no search_events")
def test_a_user_who_is_gone_when_events_are_read_has_none(shop, tmp_path, monkeypatch):
    find, list_all, gone = mirroring._users_with_events, mirroring.list_all, "f" * 24

    def as_other_services_do(project, operation, **arguments):
        if arguments.get("id") == gone:
            raise errors.NotFound(f"user {gone!r} not found")
        return list_all(project, operation, **arguments)

    monkeypatch.setattr(mirroring, "_users_with_events", lambda *arguments: [*find(*arguments), gone])
    monkeypatch.setattr(mirroring, "list_all", as_other_services_do)
    with mirrored_without("search_events", shop, tmp_path) as mirror:
        pd.testing.assert_frame_equal(credits(mirror), credits(shop))


@pytest.mark.filterwarnings("ignore:.* has no list_nodes", "ignore:sync. the mirror lacks integrations")
@pytest.mark.large
@pytest.mark.slow
def test_a_service_that_knows_no_tree_is_mirrored_without_it(shop, tmp_path):
    with mirrored_without("list_nodes", shop, tmp_path) as mirror:
        nodes = at.list_nodes(mirror).set_index("_id")
        assert {"letter", "direct"} < set(nodes.index)
        assert set(nodes["type"]) == {"channel"}
        assert len(at.list_campaigns(mirror, "ads")) == 0
        named = ["model", "node_id", "conversions", "value"]
        pd.testing.assert_frame_equal(credits(mirror)[named], credits(shop)[named])


@pytest.mark.slow
def test_odd_durations_are_derived_from_dates(shop, caplog):
    shop.transport._store.write(
        lambda connection: connection.execute(
            "UPDATE interactions SET duration = -1, endDate = NULL WHERE isBot"
        )
    )
    with at.sync(shop, ":memory:") as mirror:
        assert at.search_interactions(mirror, filtered=None, bots=None).shape[0] == 6
    assert caplog.records == []


def other_source(shop, file, tmp_path):
    at.sync(shop, file).close()
    with at.connect("shop", path=tmp_path / "other.duckdb") as other:
        at.sync(other, file)


def own_records(shop, file, tmp_path):
    with at.connect("shop", path=file) as own:
        at.load(own, nodes=table({"_id": "a", "type": "channel", "name": "A"}))
    at.sync(shop, file)


def own_events(shop, file, tmp_path):
    with at.sync(shop, file) as mirror:
        buy(mirror, "own", "ben@example.com")
    at.sync(shop, file)


def other_project(shop, file, tmp_path):
    at.connect("another", path=file).close()
    at.sync(shop, file)


def other_currency(shop, file, tmp_path):
    at.sync(shop, file).close()
    at.sync(shop, file, currency="NOK")


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (other_source, r"to: the project mirrors .*there/shop\.duckdb, not .*other\.duckdb"),
        (own_records, "to: the project is not a mirror: it has its own nodes"),
        (own_events, "to: events were sent to the mirror instead of its source"),
        (other_project, "holds the project 'another', not 'shop'"),
        (other_currency, "currency: got 'NOK', but the project has 'EUR'"),
        (lambda shop, file, _: at.sync(shop, shop.transport.address), "to: .* is the source itself"),
        (lambda shop, file, _: at.sync(shop, file, since="yesterday"), "since: 'yesterday'"),
    ],
)
def test_what_is_no_mirror_of_the_source_is_refused(shop, tmp_path, attempt, words):
    file = tmp_path / "mirror.duckdb"
    with pytest.raises(errors.InvalidRequest, match=words):
        attempt(shop, file, tmp_path)
    # Nothing holds the file.
    with pytest.raises(errors.InvalidRequest) if attempt is other_project else ExitStack():
        at.connect("shop", path=file).close()


@pytest.mark.parametrize(
    ("overlap", "words"), [("-1D", "'-1D' is not positive"), ("365.5D", "allowed: up to 365 days")]
)
def test_other_overlaps_are_refused(overlap, words):
    with at.connect("shop", path=":memory:") as shop:
        with pytest.raises(errors.InvalidRequest, match=f"overlap: .*{words}"):
            at.sync(shop, ":memory:", overlap=overlap)
        at.sync(shop, ":memory:", overlap="365D").close()


@pytest.fixture
def northern(tmp_path):
    """A project that is not in EUR and UTC."""
    there = tmp_path / "there"
    there.mkdir()
    with at.connect("shop", path=there / "shop.duckdb", currency="NOK", timezone="Europe/Oslo") as project:
        yield project


def made_with(project):
    return at.admin.get_settings(project)[["currency", "timezone"]].tolist()


@pytest.mark.large
@pytest.mark.slow
def test_a_mirror_has_the_currency_and_the_time_zone_of_its_source(northern, tmp_path):
    with ExitStack() as stack:
        source = stack.enter_context(remote(northern, tmp_path, stack))
        for each in (northern, source):
            with at.sync(each, ":memory:") as mirror, at.sync(mirror, ":memory:") as second:
                assert made_with(mirror) == made_with(second) == ["NOK", "Europe/Oslo"]
            with pytest.raises(errors.InvalidRequest, match="currency: got 'USD', but the project has 'NOK'"):
                at.sync(each, ":memory:", currency="USD")


@pytest.mark.large
@pytest.mark.slow
def test_a_service_that_does_not_tell_its_currency_is_told(northern, tmp_path):
    routes = tmp_path / "routes.toml"
    routes.write_text('[get_settings]\npath = "/projects/{projectId}/nowhere"\n')
    with ExitStack() as stack:
        source = stack.enter_context(remote(northern, tmp_path, stack, routes=routes))
        with pytest.warns(
            errors.InputWarning, match="get_settings: days are in UTC and amounts in EUR; pass"
        ):
            mirror = at.sync(source, ":memory:")
        with mirror:
            assert made_with(mirror) == ["EUR", "UTC"]
        with at.sync(source, ":memory:", currency="NOK", timezone="Europe/Oslo") as mirror:
            assert made_with(mirror) == ["NOK", "Europe/Oslo"]


SYNC = """
import sys
import attrib_ds as at
from attrib_ds import mirroring
# Small chunks, so that there is much between two of them.
mirroring._INTERACTIONS = mirroring._BATCH = 3
load = mirroring.Copier.load
def tell(*arguments, **named):
    print("loads", flush=True)
    return load(*arguments, **named)
mirroring.Copier.load = tell
with at.connect("shop", path=sys.argv[1], read_only=True) as source:
    at.sync(source, sys.argv[2], hits=True, personal=True).close()
print("done", flush=True)
"""


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 3])
def test_what_is_killed_goes_on(shop, tmp_path, kills):
    there, file = shop.transport.address, tmp_path / "mirror.duckdb"
    rows = [
        visit(number, userId=hex_id(800 + number % 20), nodeId="letter", startDate=f"2025-01-{number % 28 + 1:02}T10:00:00Z")
        for number in range(20, 60)
    ]  # fmt: skip
    orders = [order(number, userId=hex_id(800 + number % 20)) for number in range(20, 50)]
    at.load(shop, interactions=table(*rows), events=table(*orders))
    shop.close()
    chance = random.Random(7)
    for _ in range(kills):
        child = subprocess.Popen(
            [sys.executable, "-c", SYNC, there, str(file)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(chance.randrange(1, 20)):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    with at.connect("shop", path=there) as shop, at.sync(shop, file, hits=True, personal=True) as mirror:
        assert_agrees(shop, mirror)


@pytest.mark.large
@pytest.mark.slow
def test_the_sample_is_mirrored_and_credited_alike(tmp_path):
    there = tmp_path / "there"
    at.sample_project(there / "sample-shop.duckdb").close()
    key = there / "key.json"
    create_key(there, key, projects=None)
    period = {"since": "2025-06-10T00:00:00Z", "until": "2025-06-16T00:00:00Z"}
    with (
        running(there, options=ServerOptions(rate_limits=None)) as url,
        at.connect("sample-shop", url=url, key=key) as source,
        at.sync(source, tmp_path / "mirror.duckdb", **period) as mirror,
        at.connect("sample-shop", path=there / "sample-shop.duckdb") as shop,
    ):
        mirrored, expected = (
            at.attribute(
                at.conversion_paths(
                    project, event_type="order", statistic="turnover", lookback="4D", level="campaign",
                    since="2025-06-14T00:00:00Z", until=period["until"],
                    where=at.user("fields.email").is_not_null(),
                ),
                ["first_touch", "last_non_direct", "position_based", "shapley"],
            )
            for project in (mirror, shop)
        )  # fmt: skip
        plain = [name for name in expected.columns if name not in ("spend", "cpa", "roas")]
        # The sample's outlays belong to no campaign that a service lists, nor what they alone name.
        credited = [each[each["conversions"] > 0].reset_index(drop=True) for each in (mirrored, expected)]
        pd.testing.assert_frame_equal(*(each[plain] for each in credited))
        assert mirrored["conversions"].sum() > 10
        for project in (source, mirror):
            found = [at.search_interactions(each, **period) for each in (mirror, project)]
            numbered = [each.drop(columns="userLifetimeIndex") for each in found]
            pd.testing.assert_frame_equal(*numbered)
        assert at.admin.check(mirror).empty


@pytest.mark.large
@pytest.mark.slow
def test_the_command_mirrors_a_project(shop, tmp_path, capsys):
    file = tmp_path / "mirror.duckdb"
    with ExitStack() as stack, remote(shop, tmp_path, stack) as source:
        url = source.transport.address
        command = [
            "sync",
            "shop",
            "--to",
            str(file),
            "--url",
            url,
            "--key",
            str(tmp_path / "there" / "key.json"),
        ]
        assert main([*command, "--until", "2025-01-05T12:00:00Z", "--personal"]) == 0
        assert capsys.readouterr().out == f"{file} has 4 interactions and 2 users of shop\n"
        assert main(command) == 0
        assert capsys.readouterr().out == f"{file} has 6 interactions and 4 users of shop\n"
    with at.connect("shop", path=file) as mirror:
        assert at.search_interactions(mirror, columns=["userData"])["userData"].notna().sum() == 1
    assert main(["sync", "shop", "--to", str(file)]) == 1
    assert "there is no project 'shop'" in capsys.readouterr().err


@pytest.mark.slow
def test_how_far_a_mirror_is_survives_in_it(shop, tmp_path):
    with at.sync(shop, tmp_path / "mirror.duckdb", until="2025-01-07T10:00:00Z") as mirror:
        ((text,),) = rows_of(mirror.transport, "SELECT value FROM settings WHERE name = 'sync'")
    told = json.loads(text)
    assert told["source"] == shop.transport.address
    assert told["through"] == "2025-01-07T10:00:00.000Z"
    assert (told["run"], told["scope"], told["hits"], told["personal"]) == (None, None, False, False)


@pytest.mark.large
@pytest.mark.slow
def test_a_shorter_period_takes_nothing_back(shop, tmp_path):
    file = tmp_path / "mirror.duckdb"
    for until in ("2025-01-09T12:00:00Z", "2025-01-05T12:00:00Z"):
        with at.sync(shop, file, until=until) as mirror:
            ((text,),) = rows_of(mirror.transport, "SELECT value FROM settings WHERE name = 'sync'")
            assert json.loads(text)["through"] == "2025-01-09T12:00:00.000Z"
