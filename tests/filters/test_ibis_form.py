"""Every operator on tables small enough to check on paper."""

# ruff: noqa: SIM300  (the fields in capitals are not the constants of these comparisons)

import re
import threading
import time
from datetime import UTC, datetime
from functools import reduce
from operator import or_

import duckdb
import ibis
import pyarrow as pa
import pytest

from attrib_ds.attribution.engines.engine import DuckDB
from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Condition, event, interaction, node, user
from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.schema import NODE

DAY = datetime(2025, 1, 1, tzinfo=UTC)
VISITS = pa.table(
    {
        "_id": ["a", "b", "c", "d", "e"],
        "geo.city": ["Paris", "paris", "50%_off", "", None],
        "geo.latitude": pa.array([1.5, 2.0, None, -1.0, None], pa.float64()),
        "hitCount": pa.array([1, 2, 3, None, 5], pa.int64()),
        "isBot": [True, False, None, False, None],
        "startDate": pa.array(
            [DAY, DAY.replace(hour=12), DAY.replace(microsecond=1), None, DAY.replace(year=2024)],
            pa.timestamp("us", tz="UTC"),
        ),
        "userData": ["{}", None, None, None, None],
        "asn.asnId": [None, "1", None, None, None],
        "asn.asnName": [None, None, "x", None, None],
        "asnotherColumn": ["x", "x", "x", "x", "x"],
    }
)
#        root ── campaign ── adset ── ad ── keyword
#           └─── referrer                 other (no parent)
NODES = pa.Table.from_pylist(
    [
        {"_id": "root", "type": "channel", "name": "Search", "channel": "search", "path": []},
        {
            "_id": "campaign",
            "type": "campaign",
            "name": "Brand",
            "channel": "search",
            "campaignSlug": "brand-2025",
            "path": ["root"],
        },
        {"_id": "adset", "type": "adset", "name": "Shoes", "channel": "search", "path": ["root", "campaign"]},
        {
            "_id": "ad",
            "type": "ad",
            "name": "Red shoes",
            "channel": "search",
            "source": "engine",
            "medium": "cpc",
            "vendorId": "vendor",
            "integrationId": "integration",
            "path": ["root", "campaign", "adset"],
        },
        {
            "_id": "keyword",
            "type": "keyword",
            "name": "shoe",
            "channel": "search",
            "path": ["root", "campaign", "adset", "ad"],
        },
        {"_id": "referrer", "type": "referrer", "name": "example.com", "channel": "search", "path": ["root"]},
        {"_id": "other", "type": "channel", "name": "", "path": None},
    ],
    schema=NODE,
)
TOUCHES = pa.table(
    {
        "_id": ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
        "nodeId": ["root", "campaign", "adset", "ad", "keyword", "referrer", "other", "unknown", None],
    }
)
ALL_TOUCHES = "123456789"
USERS = pa.table(
    {
        "_id": ["a", "b", "c", "d", "e"],
        "fields.email": pa.array(
            [["A@Example.com "], ["b@example.com", "a@example.com"], [], None, [None]], pa.list_(pa.string())
        ),
        "fields.age": pa.array([[30.0, 40.0], [50.0], [], None, [None]], pa.list_(pa.float64())),
        "fields.plan": ["pro", "free", None, "", "pro"],
        "audienceIds": pa.array([["x", "y"], ["x"], [], None, [""]], pa.list_(pa.string())),
        "eventTypesCount.lead": pa.array([1, 2, None, 0, 5], pa.int64()),
        "firstEventDate": pa.array([DAY, None, None, None, None], pa.timestamp("us", tz="UTC")),
    }
)


@pytest.fixture(scope="module", params=["duckdb", "duckdb, naive instants", "polars"])
def tables(request):
    visits = VISITS
    if request.param == "polars":
        backend = ibis.polars.connect()
    else:
        backend = DuckDB().connect()
        # Where a mix of naive instants and instants in UTC would show.
        backend.raw_sql("SET TimeZone = 'America/New_York'")
    if request.param.endswith("naive instants"):
        naive = VISITS["startDate"].cast(pa.timestamp("us"))
        visits = VISITS.set_column(VISITS.schema.get_field_index("startDate"), "startDate", naive)
    frames = {"visits": visits, "touches": TOUCHES, "nodes": NODES, "users": USERS}
    return {name: backend.create_table(name, frame) for name, frame in frames.items()}


def selected(predicate, table, nodes=None):
    """Return the ids of the rows where the predicate holds, and check that the others are false, not null."""
    column = to_ibis(predicate, table, nodes=nodes)
    rows = table.select("_id", holds=column).to_pyarrow().to_pylist()
    assert {row["holds"] for row in rows} <= {True, False}
    return "".join(sorted(row["_id"] for row in rows if row["holds"]))


CITY = interaction("geo.city")
START = interaction("startDate")


@pytest.mark.few(141)
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (CITY == "Paris", "a"),
        (CITY != "Paris", "bcde"),
        (CITY == "", "d"),
        (CITY.isin(["Paris", "", "x"]), "ad"),
        (CITY.not_in(["Paris", ""]), "bce"),
        (CITY.contains("ARI"), "ab"),
        (CITY.not_contains("ARI"), "cde"),
        (CITY.contains(""), "abcd"),
        (CITY.contains("0%_"), "c"),
        (CITY.contains("0_"), ""),
        (CITY.starts_with("PA"), "ab"),
        (CITY.starts_with("5_"), ""),
        (CITY.not_starts_with("PA"), "cde"),
        (CITY.ends_with("IS"), "ab"),
        (CITY.ends_with("%off"), ""),
        (CITY.not_ends_with("is"), "cde"),
        (CITY > "Paris", "b"),
        (CITY >= "Paris", "ab"),
        (CITY < "Paris", "cd"),
        (CITY <= "Paris", "acd"),
        (CITY.between("A", "Q"), "a"),
        (CITY.not_between("A", "Q"), "bcde"),
        (CITY.is_empty(), "de"),
        (CITY.is_not_empty(), "abc"),
        (CITY.is_null(), "e"),
        (CITY.is_not_null(), "abcd"),
        (CITY.matches("ar"), "ab"),
        (CITY.matches("^P"), "a"),
        (CITY.matches("(?i)^p"), "ab"),
        (CITY.not_matches("ar"), "cde"),
        (interaction("geo.latitude") == 2, "b"),
        (interaction("geo.latitude") > -1, "ab"),
        (~(interaction("geo.latitude") > -1), "cde"),
        (interaction("geo.latitude").is_empty(), "ce"),
        (interaction("hitCount") == 2.0, "b"),
        (interaction("hitCount") > 1.5, "bce"),
        (interaction("hitCount").isin([1, 2.5, 5]), "ae"),
        (interaction("hitCount").between(2, 3), "bc"),
        (interaction("hitCount").between(1, 2.5), "ab"),
        (interaction("hitCount").between(1.5, 1e17), "bce"),
        (interaction("isBot") == True, "a"),  # noqa: E712
        (interaction("isBot") != True, "bcde"),  # noqa: E712
        (interaction("isBot") == False, "bd"),  # noqa: E712
        (interaction("isBot").isin([True, False]), "abd"),
        (START == "2025-01-01T01:00:00+01:00", "a"),
        (START == "2025-01-01T00:00:00.000001Z", "c"),
        (START != "2025-01-01T00:00:00Z", "bcde"),
        (START > "2025-01-01T00:00:00Z", "bc"),
        (START >= "2025-01-01T00:00:00Z", "abc"),
        (START < "2025-01-01T00:00:00Z", "e"),
        (START <= "2025-01-01T00:00:00Z", "ae"),
        (START.isin(["2025-01-01T12:00:00Z", "2024-01-01T00:00:00Z"]), "be"),
        (START.between("2025-01-01T00:00:00Z", "2025-01-01T00:00:00.000001Z"), "ac"),
        (START.is_empty(), "d"),
        (interaction("userData").is_not_null(), "a"),
        (interaction("userData").is_null(), "bcde"),
        (interaction("asn").is_not_null(), "bc"),
        (interaction("asn").is_null(), "ade"),
        (Condition("interaction", "AND"), "abcde"),
        (Condition("interaction", "OR"), "abcde"),
        (~Condition("interaction", "OR"), ""),
        ((CITY == "Paris") & Condition("interaction", "AND"), "a"),
        ((CITY == "Paris") & (interaction("hitCount") == 1), "a"),
        ((CITY == "Paris") | (interaction("hitCount") == 5), "ae"),
        (~((CITY == "Paris") | (interaction("hitCount") == 5)), "bcd"),
    ],
)
def test_operators(tables, predicate, expected):
    assert selected(predicate, tables["visits"]) == expected


# The Polars backend of Ibis calls Polars in a way that Polars has begun to warn about.
@pytest.mark.few(47)
@pytest.mark.filterwarnings("ignore:`is_in` with a collection:DeprecationWarning")
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (node("nodeId") == "root", "123456"),
        (node("nodeName") == "Brand", "2345"),
        (node("nodeType") == "adset", "345"),
        (node("channel") == "search", "123456"),
        (node("campaignId") == "campaign", "2345"),
        (node("campaignId") == "adset", ""),
        (node("campaignName").contains("BRAND"), "2345"),
        (node("campaignSlug") == "brand-2025", "2345"),
        (node("adsetId") == "adset", "345"),
        (node("adsetName") == "Shoes", "345"),
        (node("adId").isin(["ad", "x"]), "45"),
        (node("adName").ends_with("shoes"), "45"),
        (node("keyword").starts_with("sho"), "5"),
        (node("keyword").contains("shoes"), ""),
        (node("referrerHost").matches(r"\.com$"), "6"),
        (node("source") == "engine", "45"),
        (node("medium") == "cpc", "45"),
        (node("vendorId") == "vendor", "45"),
        (node("integrationId") == "integration", "45"),
        (node("campaignName") != "Brand", "16789"),
        (node("adsetName").not_contains("shoes"), "126789"),
        (node("campaignId").is_not_null(), "2345"),
        (node("campaignId").is_null(), "16789"),
        (node("nodeName").is_not_empty(), "123456"),
        (node("nodeName").is_empty(), "789"),
        (node("nodeName").is_null(), "89"),
        (~(node("nodeName") > "Brand"), "789"),
        ((node("campaignName") == "Brand") & (node("adId") != "ad"), "23"),
        ((node("keyword") == "shoe") | (node("referrerHost") == "example.com"), "56"),
        (~((node("keyword") == "shoe") | (node("referrerHost") == "example.com")), "1234789"),
        (Condition("node", "AND"), ALL_TOUCHES),
    ],
)
def test_a_node_selects_its_descendants_and_not_its_parents(tables, predicate, expected):
    assert selected(predicate, tables["touches"], tables["nodes"]) == expected


# The Polars backend of Ibis has no functions over arrays.
@pytest.mark.parametrize("tables", ["duckdb"], indirect=True)
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (user("fields.email") == "a@example.com", "ab"),
        (user("fields.email") != "A@EXAMPLE.COM", "cde"),
        (user("fields.email").contains("B@"), "b"),
        (user("fields.email").not_contains("b@"), "acde"),
        (user("fields.email").is_null(), "cde"),
        (user("fields.email").is_not_null(), "ab"),
        (user("fields.age") > 35, "ab"),
        (~(user("fields.age") > 35), "cde"),
        (user("fields.age").between(35, 45), "a"),
        (user("fields.age").not_in([30, 50]), "cde"),
        (user("fields.plan") == "pro", "ae"),
        (user("fields.plan").is_empty(), "cd"),
        (user("audienceIds") == "x", "ab"),
        (user("audienceIds").not_in(["y"]), "bcde"),
        (user("audienceIds").is_empty(), "cde"),
        (user("audienceIds").is_null(), "cd"),
        (user("audienceIds").matches("^[xy]$"), "ab"),
        (user("eventTypesCount.lead") >= 2, "be"),
        (user("firstEventDate").is_not_null(), "a"),
    ],
)
def test_several_values_of_a_user(tables, predicate, expected):
    assert selected(predicate, tables["users"]) == expected


def test_letters_whose_lower_case_engines_disagree_on():
    places = ibis.duckdb.connect().create_table(
        "places", pa.table({"_id": ["a"], "geo.city": ["İSTANBUL ΣΑΣ"]})
    )
    for text in ["İstanbul", "İSTANBUL", "ΣΑΣ"]:
        assert selected(CITY.contains(text), places) == "a"


def test_dates_and_uuids_are_read_as_instants_and_text():
    backend = ibis.duckdb.connect()
    backend.raw_sql(
        "CREATE TABLE events AS SELECT 'a' AS key, DATE '2025-01-02' AS \"eventDate\", "
        "'0190a6b0-0000-7000-8000-000000000000'::UUID AS _id"
    )
    events = backend.table("events")
    rows = events.select(
        dated=to_ibis(event("eventDate") > "2025-01-01T23:59:59Z", events),
        named=to_ibis(event("_id") == "0190a6b0-0000-7000-8000-000000000000", events),
    ).to_pyarrow()
    assert rows.to_pylist() == [{"dated": True, "named": True}]


@pytest.mark.parametrize(
    ("predicate", "columns", "message"),
    [
        (
            user("fields.emial") == "a",
            {"fields.email": "string"},
            r"fields.emial.*did you mean 'fields.email'",
        ),
        (CITY == "a", {"_id": "string"}, r"geo.city: 'geo.city' is not allowed; allowed: _id"),
        (interaction("geo").is_null(), {"_id": "string"}, r"geo: 'geo' is not allowed"),
        (
            user("fields.age") == 3,
            {"fields.age": "string"},
            r"compared as number, but the column has type string",
        ),
        (user("fields.age") == "3", {"fields.age": "array<int64>"}, r"compared as string, .* has type int64"),
        (interaction("isBot") == True, {"isBot": "string"}, r"compared as boolean"),  # noqa: E712
        (START > DAY, {"startDate": "string"}, r"compared as date, but the column has type string"),
    ],
)
def test_columns_that_do_not_serve_are_refused(predicate, columns, message):
    with pytest.raises(InvalidRequest, match=message):
        to_ibis(predicate, ibis.table(columns, name="table"))


def test_node_predicates_need_the_tree():
    touches = ibis.table({"nodeId": "string"}, name="touches")
    nodes = ibis.table({"_id": "string", "path": "array<string>"}, name="nodes")
    with pytest.raises(InvalidRequest, match="nodes: is required for a node predicate"):
        to_ibis(node("channel") == "search", touches)
    with pytest.raises(InvalidRequest, match="nodeId"):
        to_ibis(node("channel") == "search", nodes, nodes=nodes)
    with pytest.raises(InvalidRequest, match="channel"):
        to_ibis(node("channel") == "search", touches, nodes=nodes)


def test_values_never_become_code():
    hostile = "'; DROP TABLE visits; --\\"
    visits = ibis.duckdb.connect().create_table(
        "visits", pa.table({"_id": ["a", "b"], "geo.city": [hostile, "x"]})
    )
    for predicate in [
        CITY == hostile,
        CITY.isin([hostile]),
        CITY.contains(hostile),
        CITY.starts_with(hostile),
        CITY.ends_with(hostile),
        CITY.matches(r"'; DROP.*\\$"),
    ]:
        assert selected(predicate, visits) == "a"


HEAVY = Condition(
    "node",
    "OR",
    tuple(node("nodeName") == f"name {number}" for number in range(85))
    + tuple(node("campaignName") == f"name {number}" for number in range(85)),
)


def test_many_comparisons_of_nodes_are_made_once_per_node():
    backend = ibis.duckdb.connect()
    records = [
        {
            "_id": f"n{number}",
            "type": "ad",
            "name": f"name {number}",
            "path": [f"n{number // 10}"] if number > 9 else [],
        }
        for number in range(1_000)
    ]
    nodes = backend.create_table("nodes", pa.Table.from_pylist(records, schema=NODE))
    touches = backend.create_table("touches", pa.table({"nodeId": [f"n{number}" for number in range(1_100)]}))
    kept = touches.filter(to_ibis(HEAVY, touches, nodes=nodes)).count().to_pyarrow().as_py()
    dropped = touches.filter(to_ibis(~HEAVY, touches, nodes=nodes)).count().to_pyarrow().as_py()
    named = set(range(85))
    expected = sum(
        number in named or (9 < number < 1_000 and number // 10 in named) for number in range(1_100)
    )
    assert (kept, dropped) == (expected, 1_100 - expected)


@pytest.mark.few(2)
@pytest.mark.parametrize("dialect", ["duckdb", "pyspark", "postgres", "clickhouse"])
def test_a_filter_on_nodes_joins_them_twice_at_most_on_every_engine(dialect):
    touches = ibis.table({"nodeId": "string"}, name="touches")
    nodes = ibis.table(ibis.Schema.from_pyarrow(NODE), name="nodes")
    for predicate in (HEAVY, ~HEAVY):
        query = str(ibis.to_sql(touches.filter(to_ibis(predicate, touches, nodes=nodes)), dialect=dialect))
        assert len(re.findall(r"\bJOIN\b", query)) <= 2
        assert len(re.findall(r"\bIN\s*\(", query)) == 1


@pytest.mark.parametrize(
    ("test", "most"), [("contains", 50), ("starts_with", 100), ("ends_with", 100), ("matches", 20)]
)
def test_a_search_of_texts_without_hits_can_be_interrupted(test, most):
    """In its scan DuckDB 1.5 notices an interrupt after 122,880 rows."""
    backend = ibis.duckdb.connect(threads=1)
    backend.raw_sql(
        "CREATE TABLE visits AS SELECT i AS number, repeat('number ' || i || ' of many ', 20) AS \"geo.city\" "
        "FROM range(100_000) AS numbers(i)"
    )
    visits = backend.table("visits")
    found = [getattr(CITY, test)(f"no {number}") for number in range(most)]
    query = backend.compile(visits.filter(to_ibis(reduce(or_, found), visits)))
    assert "number" in re.split(r"\bWHERE\b", query)[-1]
    started_at, is_over = time.process_time(), threading.Event()

    def interrupt():
        # DuckDB forgets an interrupt that arrives before the query.
        while not is_over.wait(0.05):
            backend.con.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(duckdb.InterruptException):
            backend.con.execute(query).fetchall()
    finally:
        is_over.set()
        thread.join()
    assert time.process_time() - started_at < 2


def test_a_search_of_texts_with_one_column():
    cities = ibis.duckdb.connect().create_table("cities", pa.table({"geo.city": ["Paris", "Oslo"]}))
    found = cities.filter(to_ibis(CITY.contains("par"), cities))
    assert found.to_pyarrow().to_pylist() == [{"geo.city": "Paris"}]
