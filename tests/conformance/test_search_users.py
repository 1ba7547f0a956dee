"""Searching users (R234 to R254)."""

import threading

import pytest
from conformance.shop import computed, email, event, hex_id, node, send_event, table, uuid, visit

#: Ids of the users of the module, in the order in which they are made.
NAMES = ["Zoe", "anna", "Émile", "ben"]
USERS = [hex_id(0x10 + number) for number in range(4)]


@pytest.fixture(scope="module")
def records():
    """Four users: of the first names given, with 3, 2, 1 and no orders, and a lead of the last."""
    events = []
    for number, (user, name) in enumerate(zip(USERS, NAMES, strict=True)):
        for index in range(3 - number):
            order = {
                "_id": uuid(10 * number + index),
                "userId": user,
                "eventType": "order",
                "eventDate": f"2025-01-0{1 + number}T00:00:0{index}Z",
                "user.firstName": name,
                "user.email": f"{name.lower()}@example.com",
                "statistics.turnover.amount": 10.0 * (index + 1),
                "statistics.turnover.currency": "EUR",
                "states.confirmed": 1,
            }
            events.append(order)
    events.append(
        {"_id": uuid(99), "userId": USERS[3], "eventType": "order", "eventDate": "2025-01-09T00:00:00Z"}
    )
    visits = table(visit(1, "2025-01-01T00:00:00Z", userId=USERS[3], hitCount=5))
    return {"nodes": table(node("ads")), "events": table(*events), "interactions": visits}


@pytest.fixture(scope="module")
def changing(new_project):
    """A project with one user who had three names: "B" first, then "a", and "c" last."""
    project = new_project()
    mail = email()
    for date, name in [("2025-01-02", "a"), ("2025-01-01", "B"), ("2025-01-03", "c")]:
        id = send_event(project, mail, eventDate=f"{date}T00:00:00Z", data={"firstName": name})
    other = send_event(project, email(), data={"firstName": "bb"})
    return project, computed(project, id)["userId"], computed(project, other)["userId"]


def ask(project, **body):
    return project.send("search_users", body={"fields": [], **body})


def ids(project, **body):
    return [record["_id"] for record in ask(project, **body).ok()["data"]]


def numbers(project, **body):
    return [USERS.index(record) for record in ids(project, **body)]


@pytest.mark.slow
def test_r234_fields_is_required(service):
    assert service.send("search_users", body={}).status == 400
    assert service.send("search_users", body={"fields": None}).status == 400
    assert service.send("search_users", body={"fields": "eventCount"}).status == 400


@pytest.mark.slow
def test_r235_only_requested_keys_are_returned(service):
    (first, *_) = ask(service, fields=["eventCount", "metrics.turnover.sum"]).ok()["data"]
    assert first == {"_id": USERS[0], "eventCount": 3, "metrics": {"turnover": {"sum": 60}}}


@pytest.mark.slow
def test_r236_without_keys_only_the_id_is_returned(service):
    assert ask(service).ok()["data"] == [{"_id": id} for id in USERS]


def test_r237_fields_are_returned_as_arrays(service):
    (first, *_) = ask(service, fields=["fields.firstName"]).ok()["data"]
    (value,) = first["fields"]["firstName"]
    assert set(first) == {"_id", "fields"}
    assert value["current"] == "Zoe"
    assert set(value) >= {"type", "current", "raw", "date", "invalid", "anonymized", "discriminant", "from"}


def test_r238_counts_metrics_and_counters_are_keys(service):
    keys = ["eventTypesCount.order", "metrics.turnover.max", "interactionCount", "hitCount", "firstEventDate"]
    data = ask(service, fields=keys).ok()["data"]
    assert data[0] == {
        "_id": USERS[0],
        "eventTypesCount": {"order": 3},
        "metrics": {"turnover": {"max": 30}},
        "interactionCount": 0,
        "hitCount": 0,
        "firstEventDate": "2025-01-01T00:00:00.000Z",
    }
    assert (data[3]["interactionCount"], data[3]["hitCount"]) == (1, 5)


def test_r239_five_aggregations_are_known(service):
    for aggregation, value in [("sum", 60), ("max", 30), ("min", 10), ("count", 3), ("average", 20)]:
        (first, *_) = ask(service, fields=[f"metrics.turnover.{aggregation}"]).ok()["data"]
        assert first["metrics"] == {"turnover": {aggregation: value}}, (aggregation, value)


def test_r239_another_aggregation_is_refused(service):
    for wrong in ["median", ""]:
        assert ask(service, fields=[f"metrics.turnover.{wrong}"]).status == 400, wrong
        assert ask(service, sort=f"metrics.turnover.{wrong}").status == 400, wrong


UNKNOWN = ["nonsense", "eventcount", "fields", "fields.", "metrics.turnover", "EventCount", ""]
NOT_THERE = [
    "fields.shoeSize",
    "eventTypesCount.refund",
    "metrics.profit.sum",
    "fields.turnover",
    "metrics.email.sum",
]


def test_r240_r241_an_unknown_key_is_refused(service):
    for key in UNKNOWN + NOT_THERE:
        assert ask(service, fields=[key]).status == 400, key
        assert ask(service, sort=key).status == 400, key
        body = {
            "filename": "users",
            "exporterDataConfig": {"columns": ["_id", key]},
            "outputFormatConfig": {"type": "csv"},
            "transformerConfig": [],
        }
        assert service.send("export_users", body=body).status == 400, key


def test_r242_metric_keys_may_contain_hyphens(service):
    keys = ["metrics.state-delay-confirmed.average", "metrics.event-count.sum"]
    (first, *_) = ask(service, fields=keys).ok()["data"]
    assert first["metrics"]["event-count"] == {"sum": 3}
    assert set(first["metrics"]["state-delay-confirmed"]) == {"average"}


def rule(field, operator, *value, kind="fields", **others):
    return {
        "type": kind,
        "field": field,
        "operator": operator,
        **({"value": value[0]} if value else {}),
        **others,
    }


@pytest.mark.slow
def test_r243_predicates_and_operations_nest(service):
    by_name = rule("firstName", "contains", "n", operatorType="string")
    many = rule("order", "greaterThan", 1, kind="eventTypesCount", operatorType="number")
    assert numbers(service, filters=by_name) == [1]
    assert numbers(service, filters=many) == [0, 1]
    both = {"type": "operation", "operator": "AND", "operands": [by_name, many]}
    either = {"type": "operation", "operator": "OR", "operands": [both, rule("firstName", "equals", "Émile")]}
    assert numbers(service, filters=both) == [1]
    assert numbers(service, filters=either) == [1, 2]
    assert numbers(service, filters=rule("turnover.sum", "lessThan", 30, kind="metrics")) == [2]
    assert numbers(service, filters=rule("hitCount", "equals", 5, kind="counters")) == [3]


def test_r243_another_shape_is_refused(service):
    for wrong in [
        {"field": "firstName", "operator": "equals", "value": "x"},
        rule("firstName", "resembles", "x"),
        rule("firstName", "equals"),
        rule("shoeSize", "equals", "x"),
        {"type": "operation", "operator": "XOR", "operands": []},
        {"type": "operation", "operator": "AND", "operands": {}},
        [],
        "email",
    ]:
        assert ask(service, filters=wrong).status == 400, wrong


def test_r244_the_order_is_ascending_by_default(service):
    assert numbers(service, sort="eventTypesCount.order") == [2, 3, 1, 0]
    assert numbers(service, sort="metrics.turnover.sum", order="ASC") == [2, 1, 0, 3]
    assert numbers(service, sort="metrics.turnover.sum", order="DESC") == [0, 1, 2, 3]
    for wrong in ("asc", "DESCENDING", 1, ""):
        assert ask(service, sort="_id", order=wrong).status == 400


def test_r245_id_after_is_exclusive(service):
    assert numbers(service, idAfter=USERS[1]) == [2, 3]
    assert numbers(service, idAfter=hex_id(0)) == [0, 1, 2, 3]
    assert numbers(service, idAfter=USERS[3]) == []


def test_r246_id_from_is_inclusive_and_id_to_exclusive(service):
    assert numbers(service, idFrom=USERS[1]) == [1, 2, 3]
    assert numbers(service, idTo=USERS[1]) == [0]
    assert numbers(service, idFrom=USERS[1], idTo=USERS[3]) == [1, 2]


def test_r247_a_range_to_the_successor_contains_one_user(service):
    assert numbers(service, idFrom=USERS[2], idTo=USERS[2]) == []
    assert numbers(service, idFrom=USERS[2], idTo=USERS[3]) == [2]


def test_r248_malformed_bounds_are_refused(service):
    for value in ["nonsense", 5]:
        for bound in ["idAfter", "idFrom", "idTo"]:
            assert ask(service, **{bound: value}).status == 400, (bound, value)


@pytest.mark.slow
def test_r249_paging_returns_every_user_once_while_users_are_created(fresh):
    for _ in range(12):
        send_event(fresh, email())
    there = set(ids(fresh))
    is_over = threading.Event()

    def add():
        while not is_over.is_set():
            fresh.send("create_event_sync", body=event(fresh, email()))

    adding = threading.Thread(target=add)
    adding.start()
    try:
        walked, last = [], hex_id(0)
        while page := ids(fresh, sort="_id", limit=3, idAfter=last):
            walked += page
            last = page[-1]
            if len(walked) > 60:
                break
    finally:
        is_over.set()
        adding.join()
    assert len(set(walked)) == len(walked)
    assert there <= set(walked)
    assert walked == sorted(walked)


@pytest.mark.parametrize(
    ("mode", "name"), [("latest", "c"), ("earliest", "B"), ("alphabetical", "a"), (None, "c")]
)
def test_r250_r251_the_mode_determines_the_returned_value(changing, mode, name):
    project, id, _ = changing
    (user,) = [
        record
        for record in ask(project, fields=["fields.firstName"], multiFieldMode=mode).ok()["data"]
        if record["_id"] == id
    ]
    assert [record["current"] for record in user["fields"]["firstName"]] == [name]


def test_r250_another_mode_is_refused(service):
    for wrong in ["newest", 5]:
        assert ask(service, multiFieldMode=wrong).status == 400, wrong


@pytest.mark.slow
def test_r251_the_mode_determines_the_sort_value(changing):
    """The other user is called "bb": after "a" and "B", before "z"."""
    project, id, other = changing
    late = send_event(
        project, computed_mail(project, id), eventDate="2025-02-01T00:00:00Z", data={"firstName": "z"}
    )
    assert computed(project, late)["userId"] == id
    assert ids(project, sort="fields.firstName", multiFieldMode="latest") == [other, id]
    assert ids(project, sort="fields.firstName", multiFieldMode="earliest") == [id, other]
    assert ids(project, sort="fields.firstName", multiFieldMode="alphabetical") == [id, other]


def computed_mail(project, id):
    user = project.send("get_user", {"id": id}).ok()
    return user["fields"]["email"][0]["current"]


def test_r252_sql_query_selects_the_users_in_its_first_column(service):
    query = "SELECT userId, eventDate FROM events GROUP BY ALL HAVING count(*) >= 1 AND userId < '{}'"
    assert numbers(service, sqlQuery=query.format(USERS[2])) == [0, 1]
    assert numbers(service, sqlQuery=f"SELECT '{USERS[3]}'") == [3]
    assert numbers(service, sqlQuery="SELECT _id FROM users WHERE interactionCount > 0") == [3]
    assert numbers(service, sqlQuery="SELECT 'nobody'") == []


FORBIDDEN = [
    "DELETE FROM users",
    "DROP TABLE users",
    "INSERT INTO users VALUES ('x')",
    "UPDATE events SET userId = 'x'",
    "SELECT 1; SELECT 2",
    "SELECT _id FROM users; DROP TABLE users",
    "CREATE TABLE t AS SELECT 1",
    "COPY (SELECT 1) TO '/tmp/leak.csv'",
    "ATTACH '/tmp/other.duckdb'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT content FROM glob('/*')",
    "SELECT * FROM 'https://example.com/x.csv'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET enable_external_access = true",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM raw_events",
    "SELECT * FROM main.users",
    "SELECT getenv('HOME')",
    "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT 1 FROM t) SELECT * FROM t",
    "EXPLAIN SELECT 1",
    "nonsense",
]


def test_r253_sql_query_cannot_write_or_reach_outside(service):
    for query in FORBIDDEN:
        assert ask(service, sqlQuery=query).status == 400, query


def test_r253_refused_queries_have_no_effect(service):
    for query in FORBIDDEN[:4]:
        ask(service, sqlQuery=query)
    assert ids(service) == USERS
    assert ids(service, sqlQuery="SELECT userId FROM events") == USERS


def test_r254_an_answer_has_five_members(service):
    page = ask(service, offset=1, limit=2, sort="_id").ok()
    assert list(page) == ["offset", "limit", "count", "total", "data"]
    assert page == {
        "offset": 1,
        "limit": 2,
        "count": 2,
        "total": 4,
        "data": [{"_id": USERS[1]}, {"_id": USERS[2]}],
    }


def test_r254_an_unknown_audience_is_404(service):
    condition = {"type": "audience", "operator": "in", "value": [hex_id(999)]}
    assert ask(service, audienceCondition=condition).status == 404
