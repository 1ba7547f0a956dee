"""Engines against each other, against plain Python, and against the laws of logic."""

import re
from datetime import UTC, datetime

import ibis
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.law_examples import examples

from attrib_ds.attribution.engines.engine import DuckDB
from attrib_ds.filters import to_json
from attrib_ds.filters.ibis_form import to_ibis
from attrib_ds.schema import INTERACTION, NODE, NODE_TYPES

FEW = settings(max_examples=examples(20))
TEXTS = st.none() | st.text(alphabet="aAbéÉ%_\\'. ", max_size=3)
MOMENTS = st.none() | st.sampled_from(
    [
        datetime(2025, 1, 1, tzinfo=UTC),
        datetime(2025, 1, 1, 0, 0, 59, 999_999, tzinfo=UTC),
        datetime(2025, 3, 30, 1, 30, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
    ]
)
INTERACTION_ROWS = {
    "geo.city": ("string", TEXTS),
    "referrer": ("string", TEXTS),
    "hitCount": ("number", st.none() | st.integers(-1, 3)),
    "duration": ("number", st.none() | st.sampled_from([-1.0, 0.0, 0.5, 2.0, 1e300])),
    "isBot": ("boolean", st.none() | st.booleans()),
    "startDate": ("date", MOMENTS),
    "asn.asnId": ("string", TEXTS),
    "asn.asnName": ("string", TEXTS),
}
INTERACTION_FIELDS = {name: kind for name, (kind, _) in INTERACTION_ROWS.items()} | {"asn": "object"}
USER_ROWS = {
    "fields.email": ("string", st.none() | st.lists(TEXTS, max_size=2)),
    "fields.age": ("number", st.none() | st.lists(st.none() | st.sampled_from([0.5, 1.0, 2.0]), max_size=2)),
    "fields.tags": ("array", st.none() | st.lists(TEXTS, max_size=2)),
    "fields.since": ("date", st.none() | st.lists(MOMENTS, max_size=2)),
    "fields.consent": ("boolean", st.none() | st.lists(st.none() | st.booleans(), max_size=2)),
    "eventTypesCount.purchase": ("number", st.none() | st.integers(0, 3)),
    "audienceIds": ("array", st.none() | st.lists(TEXTS, max_size=2)),
}
USER_FIELDS = {name: kind for name, (kind, _) in USER_ROWS.items()}
USER_SCHEMA = pa.schema(
    {
        "fields.email": pa.list_(pa.string()),
        "fields.age": pa.list_(pa.float64()),
        "fields.tags": pa.list_(pa.string()),
        "fields.since": pa.list_(pa.timestamp("us", tz="UTC")),
        "fields.consent": pa.list_(pa.bool_()),
        "eventTypesCount.purchase": pa.int64(),
        "audienceIds": pa.list_(pa.string()),
    }
)


def rows_of(columns):
    return st.lists(
        st.fixed_dictionaries({name: drawn for name, (_, drawn) in columns.items()}), min_size=1, max_size=5
    )


# The evaluation in plain Python starts from the JSON form and spells out all 22 operators by itself.


def same_email(value):
    return value.strip().lower()


def satisfies(operator, value, wanted, read):
    """Apply an operator that is not negative to one value, which may be missing."""
    if operator == "isNotNull":
        return value is not None
    if operator == "isNotEmpty":
        return value is not None and value != ""
    if value is None:
        return False
    value = read(value)
    return {
        "equals": lambda: value == read(wanted),
        "in": lambda: any(value == read(item) for item in wanted),
        "contains": lambda: wanted.lower() in value.lower(),
        "startsWith": lambda: value.lower().startswith(wanted.lower()),
        "endsWith": lambda: value.lower().endswith(wanted.lower()),
        "greaterThan": lambda: value > read(wanted),
        "greaterThanOrEquals": lambda: value >= read(wanted),
        "lessThan": lambda: value < read(wanted),
        "lessThanOrEquals": lambda: value <= read(wanted),
        "between": lambda: read(wanted[0]) <= value <= read(wanted[1]),
        "matches": lambda: re.search(wanted, value) is not None,
    }[operator]()


OPPOSITES = {
    "notEquals": "equals",
    "notIn": "in",
    "notContains": "contains",
    "notStartsWith": "startsWith",
    "notEndsWith": "endsWith",
    "notBetween": "between",
    "isEmpty": "isNotEmpty",
    "isNull": "isNotNull",
    "notMatches": "matches",
}


def moment(value):
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def holds(rule, values_of):
    """Evaluate a rule, given the values that a record has for a field name."""
    members = rule.get("rules", rule.get("operands"))
    if members is not None:
        results = [holds(member, values_of) for member in members]
        every = rule.get("condition", rule.get("operator")) == "AND"
        result = (all(results) if every else any(results)) or not results
        return result != rule.get("not", False)
    name = rule.get("filterId") or ("fields." if rule["type"] == "fields" else "") + rule["field"]
    if rule["type"] == "eventTypesCount":
        name = f"eventTypesCount.{name}"
    operator = OPPOSITES.get(rule["operator"], rule["operator"])
    read = moment if name in {"startDate", "fields.since"} else lambda value: value
    if name == "fields.email" and operator in {"equals", "in"}:
        read = same_email
    result = any(satisfies(operator, value, rule.get("value"), read) for value in values_of(name))
    return result != (rule["operator"] in OPPOSITES)


def members_of(row):
    """Look a field up in a flat row: several values, one value, or the members of an object."""

    def values_of(name):
        if name in row:
            return row[name] if isinstance(row[name], list) else [row[name]]
        return [value for column, value in row.items() if column.startswith(f"{name}.")]

    return values_of


@pytest.fixture(scope="module")
def new_york():
    backend = DuckDB().connect()
    backend.raw_sql("SET TimeZone = 'America/New_York'")
    return backend


@pytest.fixture(scope="module")
def polars():
    return ibis.polars.connect()


def evaluate(backend, predicates, frame, *, nodes=None):
    """Answer every predicate on every row, in one query."""
    numbered = frame.append_column("row", pa.array(range(frame.num_rows)))
    table = backend.create_table("rows", numbered, overwrite=True)
    tree = None if nodes is None else backend.create_table("nodes", nodes, overwrite=True)
    columns = {f"p{number}": to_ibis(item, table, nodes=tree) for number, item in enumerate(predicates)}
    answers = table.select("row", **columns).to_pyarrow().sort_by("row")
    return [answers[name].to_pylist() for name in columns]


def naive(frame):
    place = frame.schema.get_field_index("startDate")
    return frame.set_column(place, "startDate", frame["startDate"].cast(pa.timestamp("us")))


@pytest.mark.slow
@FEW
@given(data=st.data())
def test_engines_agree_with_plain_python_on_interactions(data, predicate_of, new_york, polars):
    rows = data.draw(rows_of(INTERACTION_ROWS))
    drawn = predicate_of("interaction", INTERACTION_FIELDS)
    predicates = data.draw(st.lists(drawn, min_size=1, max_size=8))
    schema = pa.schema([INTERACTION.field(name) for name in INTERACTION_ROWS])
    frame = pa.Table.from_pylist(rows, schema=schema)
    expected = [[holds(to_json(item), members_of(row)) for row in rows] for item in predicates]
    assert evaluate(new_york, predicates, frame) == expected
    assert evaluate(new_york, predicates, naive(frame)) == expected
    assert evaluate(polars, predicates, frame) == expected


@FEW
@given(data=st.data())
def test_engine_agrees_with_plain_python_on_several_values(data, predicate_of, new_york):
    rows = data.draw(rows_of(USER_ROWS))
    predicates = data.draw(st.lists(predicate_of("user", USER_FIELDS), min_size=1, max_size=8))
    frame = pa.Table.from_pylist(rows, schema=USER_SCHEMA)
    expected = [[holds(to_json(item), members_of(row)) for row in rows] for item in predicates]
    assert evaluate(new_york, predicates, frame) == expected


@st.composite
def draw_trees(draw):
    """Draw nodes whose parents come before them, so that depth is only bounded by their number."""
    nodes = []
    for number in range(draw(st.integers(1, 7))):
        parent = draw(st.none() | st.sampled_from(nodes)) if nodes else None
        nodes.append(
            {
                "_id": draw(st.sampled_from(["a", "A", "é", "%"])) + str(number),
                "parentId": parent and parent["_id"],
                "type": draw(st.sampled_from(NODE_TYPES)),
                "path": [*(parent["path"] or []), parent["_id"]]
                if parent
                else draw(st.sampled_from([None, []])),
                **{name: draw(TEXTS) for name in ["name", "channel", "campaignSlug", "source", "medium"]},
            }
        )
    return nodes


def own_value(record, name):
    """Read a ``filterId`` off a node's own record (G-090)."""
    for level in ["campaign", "adset", "ad"]:
        if name in {f"{level}Id", f"{level}Name"}:
            return record["_id" if name.endswith("Id") else "name"] if record["type"] == level else None
    if name in {"keyword", "referrerHost"}:
        return record["name"] if record["type"] == name.removesuffix("Host") else None
    return record.get({"nodeId": "_id", "nodeName": "name", "nodeType": "type"}.get(name, name))


def lineage_of(nodes, node_id):
    """Climb from a node to its root by the parents, where the engine reads stored paths."""
    records = {record["_id"]: record for record in nodes}
    while node_id in records:
        yield records[node_id]
        node_id = records[node_id]["parentId"]


# The Polars backend of Ibis calls Polars in a way that Polars has begun to warn about.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_in` with a collection:DeprecationWarning")
@FEW
@given(data=st.data())
def test_engines_agree_with_plain_python_on_nodes(data, predicate_of, new_york, polars):
    nodes = data.draw(draw_trees())
    predicates = data.draw(st.lists(predicate_of("node"), min_size=1, max_size=5))
    node_ids = [*(record["_id"] for record in nodes), "unknown", None]
    expected = [
        [
            holds(
                to_json(item),
                lambda name, node_id=node_id: [
                    own_value(record, name) for record in lineage_of(nodes, node_id)
                ],
            )
            for node_id in node_ids
        ]
        for item in predicates
    ]
    touches = pa.table({"nodeId": pa.array(node_ids, pa.string())})
    tree = pa.Table.from_pylist(nodes, schema=NODE)
    assert evaluate(new_york, predicates, touches, nodes=tree) == expected
    assert evaluate(polars, predicates, touches, nodes=tree) == expected


@FEW
@given(data=st.data())
def test_two_valued_logic(data, predicate_of, new_york):
    rows = data.draw(rows_of(INTERACTION_ROWS))
    one, other = data.draw(st.tuples(*[predicate_of("interaction", INTERACTION_FIELDS)] * 2))
    frame = pa.Table.from_pylist(
        rows, schema=pa.schema([INTERACTION.field(name) for name in INTERACTION_ROWS])
    )
    answers = evaluate(
        new_york, [one, ~one, ~(one & other), ~one | ~other, ~(one | other), ~one & ~other], frame
    )
    is_one, is_not_one, not_both, either_not, not_either, both_not = answers
    assert set().union(*answers) <= {True, False}
    assert is_not_one == [not answer for answer in is_one]
    assert not_both == either_not
    assert not_either == both_not
