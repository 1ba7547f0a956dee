"""Loading nodes, hits and spend: what hangs together in a project."""

from decimal import Decimal

import pytest
from support.service_records import hex_id, reasons, table, uuid, visit

from attrib_ds.contract.identifiers import NO_SIGN
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.loading import load_records


def node(identifier, parent=None, /, **properties):
    usual = {"_id": identifier, "parentId": parent, "type": "campaign", "name": identifier.upper()}
    return usual | properties


def hit(number, session, second=0, **properties):
    return {
        "id": uuid(number),
        "sessionId": hex_id(session),
        "serverDate": f"2025-01-31T12:00:{second:02}Z",
        **properties,
    }


def outlay(number, campaign="brand", **properties):
    usual = {
        "_id": f"outlay {number}",
        "campaignId": campaign,
        "amount.amount": "10.50",
        "amount.currency": "EUR",
        "startDate": "2025-01-01T00:00:00Z",
        "endDate": "2025-02-01T00:00:00Z",
    }
    return usual | properties


@pytest.fixture
def load(memory_store):
    return lambda resource, *records: load_records(memory_store, resource, table(*records))


# -- nodes ------------------------------------------------------------------------------------------


def test_paths_lead_from_the_root_down_whatever_the_order_of_rows(load, rows):
    counts, rejected = load(
        "nodes", node("leaf", "middle"), node("middle", "root"), node("root"), node("other", "root")
    )
    assert (counts, rejected.num_rows) == ({"nodes": 4}, 0)
    assert dict(rows("SELECT _id, path FROM nodes")) == {
        "root": [],
        "other": ["root"],
        "middle": ["root"],
        "leaf": ["root", "middle"],
    }


def test_a_given_path_is_ignored_and_defaults_are_set(load, rows):
    load("nodes", node("root", path=["wrong"], active=None))
    assert rows("SELECT path, active, projectId, implicit, createdAt = updatedAt FROM nodes") == [
        ([], True, "shop", False, True)
    ]


def test_children_of_stored_nodes_find_their_parents(load, rows):
    load("nodes", node("root"), node("middle", "root"))
    load("nodes", node("leaf", "middle"))
    assert rows("SELECT path FROM nodes WHERE _id = 'leaf'") == [(["root", "middle"],)]


def test_a_loaded_node_replaces_an_implicit_one(load, rows):
    load("interactions", visit(1, nodeId="brand"))
    load("nodes", node("child", "brand"))
    counts, rejected = load("nodes", node("brand", "root"), node("root"))
    assert (counts, rejected.num_rows) == ({"nodes": 2}, 0)
    assert rows("SELECT _id, name, implicit, path FROM nodes ORDER BY _id") == [
        ("brand", "BRAND", False, ["root"]),
        ("child", "CHILD", False, ["root", "brand"]),
        ("root", "ROOT", False, []),
    ]


def test_rules_of_nodes(load):
    _, rejected = load(
        "nodes",
        node("fine"),
        node("untyped", type=None),
        node("odd", type="Campaign"),
        node("unnamed", name=" "),
        node("n" * 129),
        node("orphan", "nobody"),
        node("fine"),
        {**node("x"), "_id": None},
        node("flag", active="maybe"),
        node("typed", "nobody", type="y"),
    )
    types = "channel, integration, campaign, adset, ad, keyword, referrer"
    assert reasons(rejected) == {
        1: "type: is missing",
        2: f"type: 'Campaign' is not one of {types}",
        3: "name: is missing",
        4: f"_id: '{'n' * 79}…' is not text of 1 to 128 characters",
        5: "parentId: 'nobody' is not a node of this project",
        6: "_id: 'fine' is also the id of row 0",
        7: "_id: is missing",
        8: "active: 'maybe' is not true or false",
        9: f"type: 'y' is not one of {types}; parentId: 'nobody' is not a node of this project",
    }


def test_cycles_and_children_of_rejected_nodes_are_rejected(load, rows):
    _, rejected = load(
        "nodes",
        node("fine"),
        node("itself", "itself"),
        node("a", "b"),
        node("b", "c"),
        node("c", "a"),
        node("under loop", "a"),
        node("bad", type="x"),
        node("under bad", "bad"),
        node("further under bad", "under bad"),
    )
    assert {row: reason for row, reason in reasons(rejected).items() if row != 6} == {
        1: "parentId: 'itself' is the node itself or one of its descendants",
        2: "parentId: 'b' is the node itself or one of its descendants",
        3: "parentId: 'c' is the node itself or one of its descendants",
        4: "parentId: 'a' is the node itself or one of its descendants",
        5: "parentId: 'a' is rejected",
        7: "parentId: 'bad' is rejected",
        8: "parentId: 'under bad' is rejected",
    }
    assert rows("SELECT _id FROM nodes") == [("fine",)]


def test_a_loop_through_stored_nodes_is_seen(load, rows):
    load("interactions", visit(1, nodeId="top"))
    load("nodes", node("below", "top"))
    _, rejected = load("nodes", node("top", "below"))
    assert reasons(rejected) == {0: "parentId: 'below' is the node itself or one of its descendants"}
    assert dict(rows("SELECT _id, path FROM nodes")) == {"top": [], "below": ["top"]}


def test_nodes_are_loaded_once(load):
    load("nodes", node("brand"))
    counts, rejected = load("nodes", node("brand", name="Other"))
    assert counts == {"nodes": 0}
    assert reasons(rejected) == {0: "_id: 'brand' is already loaded"}


def test_a_column_that_nodes_do_not_have_is_refused(load):
    with pytest.raises(
        InvalidRequest, match="nodes: the column 'parent' is not known .did you mean 'parentId'"
    ):
        load("nodes", {**node("brand"), "parent": "x"})


# -- hits -------------------------------------------------------------------------------------------


def test_hits_belong_to_sessions_and_make_their_counts(load, rows):
    load("interactions", visit(1, hitCount=9), visit(2, firstHitId=uuid(5)), visit(3, hitCount=4))
    counts, rejected = load(
        "hits", hit(1, 1, 20), hit(2, 1, 10, hitType="click"), hit(5, 2, 7), hit(6, 2, 3), hit(7, 2, 9)
    )
    assert (counts, rejected.num_rows) == ({"hits": 5}, 0)
    # Of the first session the earliest hit opened it; the second said itself which one did.
    assert rows("SELECT firstHitId, hitCount FROM interactions ORDER BY _id") == [
        (uuid(2), 2),
        (uuid(5), 3),
        (None, 4),
    ]
    assert rows("SELECT hitType, isBot, projectId FROM hits ORDER BY id LIMIT 2") == [
        ("pageview", False, "shop"),
        ("click", False, "shop"),
    ]
    load("hits", hit(8, 1, 30))
    assert rows("SELECT hitCount FROM interactions ORDER BY _id LIMIT 1") == [(3,)]


def test_rules_of_hits(load):
    load("interactions", visit(1), visit(2, type="offline"))
    load("hits", hit(1, 1))
    _, rejected = load(
        "hits",
        hit(2, 1),
        {**hit(3, 1), "sessionId": None, "serverDate": None},
        hit(4, 9),
        hit(5, 2),
        hit(2, 1),
        hit(1, 1),
        {**hit(6, 1), "id": "first"},
        hit(7, 1, serverDate="1980-01-01T00:00:00Z", timezoneOffset="x"),
        hit(8, 9, timezoneOffset="inf"),
    )
    assert reasons(rejected) == {
        1: "sessionId: is missing; serverDate: is missing",
        2: f"sessionId: '{hex_id(9)}' is not an interaction of this project",
        3: f"sessionId: '{hex_id(2)}' is offline and has no hits",
        4: f"id: '{uuid(2)}' is also the id of row 0",
        5: f"id: '{uuid(1)}' is already loaded",
        6: "id: 'first' is not a UUID",
        7: "serverDate: '1980-01-01T00:00:00Z' is before 1990; timezoneOffset: 'x' is not a finite number",
        8: "timezoneOffset: 'inf' is not a finite number; "
        f"sessionId: '{hex_id(9)}' is not an interaction of this project",
    }


def test_ids_of_hits_are_made_where_there_are_none(load, rows):
    load("interactions", visit(1))
    load("hits", {**hit(1, 1), "id": None}, {**hit(2, 1), "id": None})
    ((count,),) = rows("SELECT count(DISTINCT id) FROM hits WHERE length(id) = 36")
    assert count == 2


# -- spend ------------------------------------------------------------------------------------------


def test_spend_is_exact_and_its_campaigns_are_nodes(load, rows):
    counts, rejected = load(
        "spend",
        outlay(1, **{"amount.amount": "123456789012345678.123456"}),
        outlay(2, campaign="new", country="FR", region=" "),
        {**outlay(3), "_id": None},
    )
    assert (counts, rejected.num_rows) == ({"spend": 3, "implicit_nodes": 2}, 0)
    assert rows('SELECT "amount.amount", "amount.currency" FROM outlays WHERE _id = \'outlay 1\'') == [
        (Decimal("123456789012345678.123456"), "EUR")
    ]
    assert rows("SELECT country, region, deletedAt, projectId FROM outlays WHERE _id = 'outlay 2'") == [
        ("FR", None, None, "shop")
    ]
    assert rows("SELECT _id, type, implicit FROM nodes ORDER BY _id") == [
        ("brand", "campaign", True),
        ("new", "campaign", True),
    ]


def test_an_implicit_node_becomes_a_campaign_with_its_spend(load, rows):
    load("interactions", visit(1, nodeId="brand"), visit(2, nodeId="direct"))
    counts, _ = load("spend", outlay(1))
    assert counts["implicit_nodes"] == 0
    assert rows("SELECT _id, type FROM nodes ORDER BY _id") == [("brand", "campaign"), ("direct", "channel")]


def test_a_described_node_keeps_its_type_under_spend(load, rows):
    load("nodes", node("brand", type="adset"))
    load("spend", outlay(1))
    assert rows("SELECT type FROM nodes") == [("adset",)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"campaignId": None}, "campaignId: is missing"),
        ({"amount.amount": None}, "amount.amount: is missing"),
        ({"amount.amount": "-0.01"}, "amount.amount: '-0.01' is negative"),
        ({"amount.currency": None}, "amount.currency: is missing"),
        ({"amount.currency": "$"}, f"amount.currency: '$' is not {NO_SIGN}"),
        ({"startDate": "2025-02-01T00:00:00Z"}, "startDate: is not before endDate"),
        ({"endDate": None}, "endDate: is missing"),
        (
            {"endDate": "2025-02-01"},
            "endDate: '2025-02-01' is not a date with a time, such as 2025-01-31T12:00:00Z",
        ),
        ({"amount": "5"}, "amount: '5' is not an object"),
    ],
)
def test_rules_of_spend(load, change, reason):
    counts, rejected = load("spend", outlay(1), {**outlay(2), **change})
    assert counts["spend"] == 1
    assert reasons(rejected) == {1: reason}


@pytest.mark.parametrize(
    "amount", ["ten", "nan", "inf", "1234567890123456789", "0.0000001", "1e-7", "1.1234567", "1.12345601"]
)
def test_amounts_that_cannot_be_held_exactly_are_refused(load, amount):
    _, rejected = load("spend", outlay(1, **{"amount.amount": amount}))
    form = "is not an amount of at most 18 digits before and 6 after the point"
    assert reasons(rejected) == {0: f"amount.amount: '{amount}' {form}"}


@pytest.mark.parametrize(
    ("amount", "stored"),
    [
        ("0", "0"),
        ("1.10000000", "1.1"),
        ("1e3", "1000"),
        ("15e-1", "1.5"),
        (0.1 + 0.2, "0.3"),
        (7, "7"),
        (Decimal("1.2500000"), "1.25"),
        (Decimal("999999999999999999.999999"), "999999999999999999.999999"),
    ],
)
def test_amounts_are_kept(load, rows, amount, stored):
    load("spend", outlay(1, **{"amount.amount": amount}))
    assert rows('SELECT "amount.amount" FROM outlays') == [(Decimal(stored),)]


def test_outlays_are_loaded_once(load):
    load("spend", outlay(1))
    _, rejected = load("spend", outlay(1), outlay(2), outlay(2))
    assert reasons(rejected) == {
        0: "_id: 'outlay 1' is already loaded",
        2: "_id: 'outlay 2' is also the id of row 1",
    }
