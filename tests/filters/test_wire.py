import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import json_values

from attrib_ds.errors import InvalidRequest
from attrib_ds.filters import Condition, as_condition, event, from_json, interaction, node, to_json, user
from attrib_ds.records.json_records import decode

PARIS = {"type": "predicate", "field": "geo.city", "operator": "equals", "value": "Paris"}


def leaf(**changed):
    return {**PARIS, **changed}


def group(*rules, **changed):
    return {"type": "condition", "condition": "AND", "rules": list(rules), **changed}


def user_leaf(**changed):
    return {"type": "fields", "field": "email", "operator": "equals", "value": "a@example.com", **changed}


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=100)
@given(data=st.data())
def test_json_gives_the_predicate_back(data, any_predicate):
    predicate = data.draw(any_predicate)
    sent = json.dumps(to_json(predicate), allow_nan=False)
    assert from_json(json.loads(sent)) == predicate
    assert from_json(json.loads(sent), predicate.kind) == predicate


@pytest.mark.parametrize(
    ("predicate", "written"),
    [
        (interaction("geo.city") == "Paris", PARIS),
        (interaction("geo").is_null(), {"type": "predicate", "field": "geo", "operator": "isNull"}),
        (
            (interaction("geo.city") == "Paris")
            & ~(interaction("isBot").is_null() | (interaction("hitCount") > 1)),
            {
                "id": "0",
                "type": "condition",
                "condition": "AND",
                "rules": [
                    PARIS,
                    {
                        "id": "0.1",
                        "type": "condition",
                        "condition": "OR",
                        "rules": [
                            {"type": "predicate", "field": "isBot", "operator": "isNull"},
                            {"type": "predicate", "field": "hitCount", "operator": "greaterThan", "value": 1},
                        ],
                        "not": True,
                    },
                ],
            },
        ),
        (
            as_condition(node("channel").isin(["search", "social"])),
            {
                "id": "0",
                "type": "condition",
                "condition": "AND",
                "rules": [
                    {
                        "id": "0.0",
                        "type": "predicate",
                        "filterId": "channel",
                        "operator": "in",
                        "value": ["search", "social"],
                    }
                ],
            },
        ),
        (
            ~((user("fields.email").contains("a")) | (user("eventTypesCount.lead") >= 2)),
            {
                "type": "operation",
                "operator": "OR",
                "operands": [
                    {
                        "type": "fields",
                        "field": "email",
                        "operatorType": "string",
                        "operator": "contains",
                        "value": "a",
                    },
                    {
                        "type": "eventTypesCount",
                        "field": "lead",
                        "operatorType": "number",
                        "operator": "greaterThanOrEquals",
                        "value": 2,
                    },
                ],
                "not": True,
            },
        ),
        (
            user("metrics.revenue.v2.sum").between(1, 2),
            {
                "type": "metrics",
                "field": "revenue.v2.sum",
                "operatorType": "number",
                "operator": "between",
                "value": [1, 2],
            },
        ),
        (
            user("firstEventDate") < "2025-01-01T01:00:00+01:00",
            {
                "type": "counters",
                "field": "firstEventDate",
                "operatorType": "date",
                "operator": "lessThan",
                "value": "2025-01-01T00:00:00.000Z",
            },
        ),
        (
            user("mostProbableLocation").is_null(),
            {"type": "counters", "field": "mostProbableLocation", "operator": "isNull"},
        ),
        (
            event("attributable") == True,  # noqa: E712
            {
                "type": "predicate",
                "entity": "event",
                "field": "attributable",
                "operator": "equals",
                "value": True,
            },
        ),
        (
            event("event.seats") > 3,
            {
                "type": "predicate",
                "entity": "event",
                "field": "event.seats",
                "operatorType": "number",
                "operator": "greaterThan",
                "value": 3,
            },
        ),
        (
            Condition("node", "OR"),
            {"id": "0", "type": "condition", "condition": "OR", "rules": [], "entity": "node"},
        ),
    ],
)
def test_written_form(predicate, written):
    assert to_json(predicate) == written
    assert from_json(written) == predicate


@pytest.mark.parametrize(
    ("written", "predicate"),
    [
        (leaf(id="x", input="text", data=None), interaction("geo.city") == "Paris"),
        (leaf(operator="isNull"), interaction("geo.city").is_null()),
        (leaf(operatorType="number"), interaction("geo.city") == "Paris"),
        (group(), Condition("interaction", "AND")),
        (group(PARIS, **{"not": False}), as_condition(interaction("geo.city") == "Paris")),
        (
            leaf(field="startDate", value="2025-01-01T02:00:00+02:00"),
            interaction("startDate") == "2025-01-01T00:00:00Z",
        ),
        (user_leaf(), user("fields.email") == "a@example.com"),
        (user_leaf(field="age", value=30), user("fields.age") == 30),
        (
            user_leaf(field="since", operatorType="date", value="2025-01-01T00:00:00Z"),
            user("fields.since", operator_type="date") == "2025-01-01T00:00:00Z",
        ),
        (user_leaf(field="a.b"), user("fields.a.b") == "a@example.com"),
        (
            {
                "type": "counters",
                "field": "audienceIds",
                "operatorType": "string",
                "operator": "equals",
                "value": "a",
            },
            user("audienceIds") == "a",
        ),
        (
            {"type": "condition", "condition": "OR", "rules": [user_leaf()]},
            Condition("user", "OR", (user("fields.email") == "a@example.com",)),
        ),
        (
            {"type": "operation", "operator": "AND", "operands": [group(), group(user_leaf())]},
            Condition(
                "user",
                "AND",
                (Condition("user", "AND"), as_condition(user("fields.email") == "a@example.com")),
            ),
        ),
    ],
)
def test_read_forms(written, predicate):
    assert from_json(written) == predicate
    assert from_json(written, predicate.kind) == predicate


def test_a_stated_kind_decides_where_the_form_does_not():
    assert from_json(group(), "node") == Condition("node", "AND")
    assert from_json({**PARIS, "field": "eventType"}, "event") == (event("eventType") == "Paris")


@pytest.mark.parametrize(
    ("written", "pointer", "message"),
    [
        ([], "", "filter: must be an object"),
        (None, "", "must be an object"),
        ({}, "/type", "is required"),
        (leaf(type="rule"), "/type", "'rule' is not allowed.*allowed: condition, predicate"),
        (leaf(type=["predicate"]), "/type", "is not allowed"),
        ({"type": "predicate", "operator": "equals", "value": 1}, "/field", "is required"),
        ({"type": "predicate", "field": "geo.city", "value": 1}, "/operator", "is required"),
        ({"type": "predicate", "field": "geo.city", "operator": "equals"}, "/value", "is required"),
        (leaf(field="geo.town"), "/field", "'geo.town' is not allowed"),
        (leaf(field=3), "/field", "must be text"),
        (leaf(operator="eq"), "/operator", "'eq' is not allowed"),
        (leaf(operator=None), "/operator", "None is not allowed"),
        (leaf(value=3), "/value", "takes text, got 3"),
        (leaf(value=None), "/value", "missing value None"),
        (leaf(operator="in", value="Paris"), "/value", "must be an array, got 'Paris'"),
        (leaf(operator="in", value=[]), "/value", "takes 1 to 10,000 values"),
        (leaf(operator="between", value=["a"]), "/value", "takes a low and a high value"),
        (leaf(field="geo"), "/operator", "does not apply"),
        (leaf(field="startDate", value="2025-01-01"), "/value", "date without a time"),
        (group(PARIS, leaf(field="x")), "/rules/1/field", "'x' is not allowed"),
        (group(group(leaf(operator="x"))), "/rules/0/rules/0/operator", "'x' is not allowed"),
        (group(PARIS, 7), "/rules/1", "must be an object"),
        (group(condition="and"), "/condition", "did you mean 'AND'"),
        (group(condition=["AND"]), "/condition", "is not allowed"),
        ({"type": "condition", "condition": "AND"}, "/rules", "is required"),
        (group(rules={}), "/rules", "must be an array"),
        (group(PARIS, **{"not": "true"}), "/not", "must be true or false"),
        (group(PARIS, {"type": "predicate", "filterId": "channel"}), "/rules/1/field", "is required"),
        (group(PARIS, {**PARIS, "entity": "event"}), "/rules/1/entity", "'event' is not allowed"),
        (
            group(*[PARIS] * 200),
            "/rules",
            "may have at most 200 comparisons and conditions, this one has 201",
        ),
        (user_leaf(operatorType="number"), "/value", "takes a finite number"),
        (user_leaf(operatorType="text"), "/operatorType", "'text' is not allowed"),
        (user_leaf(operatorType=["string"]), "/operatorType", "is not allowed"),
        (user_leaf(type="counters"), "/field", "'email' is not allowed"),
        (user_leaf(type="counters", field="fields.email"), "/type", "allowed: fields"),
        (user_leaf(type="metrics", field="revenue"), "/field", "'metrics.revenue' is not allowed"),
        (user_leaf(field=None), "/field", "must be text"),
        (
            {"type": "operation", "operator": "AND", "operands": [user_leaf(operator="x")]},
            "/operands/0/operator",
            "'x' is not allowed",
        ),
        ({"type": "operation", "operator": "AND", "operands": [PARIS]}, "/operands/0/type", "'predicate'"),
    ],
)
def test_wrong_forms_are_refused_with_a_pointer(written, pointer, message):
    with pytest.raises(InvalidRequest, match=message) as caught:
        from_json(written)
    assert caught.value.field == pointer
    assert str(caught.value).startswith(f"{pointer or 'filter'}: ")


def nested(levels):
    written = PARIS
    for _ in range(levels - 1):
        written = group(written)
    return written


def test_ten_levels_are_the_most():
    assert from_json(nested(10)).kind == "interaction"
    with pytest.raises(InvalidRequest, match="at most 10 levels") as caught:
        from_json(nested(11))
    assert caught.value.field == "/rules/0" * 10


@pytest.mark.slow
def test_a_hostile_depth_is_refused_without_walking_it():
    with pytest.raises(InvalidRequest, match="at most 10 levels"):
        from_json(nested(100_000))


def test_other_values_than_predicates_are_not_written():
    with pytest.raises(InvalidRequest, match="must be a predicate, got Field"):
        to_json(interaction("geo.city"))
    with pytest.raises(InvalidRequest, match="kind: 'visit'"):
        from_json(PARIS, "visit")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", ["1e999999999", "-1e999999999", "1e99999999999999999999", "1e18", "1e25"])
@pytest.mark.parametrize(
    "comparison",
    [
        '{"type": "predicate", "field": "hitCount", "operator": "equals", "value": 0}',
        '{"type": "predicate", "field": "duration", "operator": "in", "value": [1, 0]}',
        '{"type": "predicate", "field": "duration", "operator": "between", "value": [0, 0]}',
        '{"type": "predicate", "field": "nodeId", "operator": "equals", "value": 0}',
        '{"type": "predicate", "entity": "event", "field": "data.x", "operator": "lessThan", "value": 0}',
    ],
)
def test_numbers_of_more_than_18_digits_are_refused_at_once(comparison, number):  # G-221
    with pytest.raises(InvalidRequest) as refused:
        from_json(decode(comparison.replace("0", number).encode()))
    shown = {"1e18": "1E+18", "1e25": "1E+25"}.get(number, number)
    assert f"got {shown} (number)" in refused.value.message or "0" not in comparison[:-2]
    assert "Decimal" not in refused.value.message


def test_whole_numbers_may_have_a_decimal_point():  # G-221
    comparison = '{"type": "predicate", "field": "hitCount", "operator": "in", "value": [1.0, 2e0, 1.5]}'
    assert repr(from_json(decode(comparison.encode())).value) == "(1, 2, 1.5)"


FIELDS = [
    "hitCount",
    "duration",
    "geo.city",
    "isBot",
    "startDate",
    "channel",
    "nodeId",
    "fields.age",
    "email",
]
OPERATIONS = ["equals", "notEquals", "in", "notIn", "between", "contains", "matches", "isNull", "greaterThan"]


@st.composite
def comparisons(draw):
    shape = draw(
        st.sampled_from(["predicate", "fields", "counters", "metrics", "eventTypesCount", "condition"])
    )
    return {
        "type": shape,
        "field": draw(st.sampled_from(FIELDS) | json_values()),
        "operator": draw(st.sampled_from(OPERATIONS) | json_values()),
        "value": draw(json_values() | st.lists(json_values(), min_size=2, max_size=2)),
        **draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "operatorType": st.sampled_from(["number", "string", "date", "boolean"]) | json_values(),
                    "entity": st.sampled_from(["event", "node", "user"]) | json_values(),
                    "filterId": json_values(FIELDS),
                    "condition": st.sampled_from(["AND", "OR"]) | json_values(),
                    "not": json_values(),
                },
            )
        ),
    }


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.timeout(120)
@settings(max_examples=400, deadline=2_000)
@given(
    st.recursive(
        comparisons() | json_values(["type", "rules", "operands"]),
        lambda inner: st.builds(
            lambda rules, kind: {
                "type": kind,
                "condition": "AND",
                "operator": "OR",
                "rules": rules,
                "operands": rules,
            },
            st.lists(inner, max_size=3),
            st.sampled_from(["condition", "operation"]),
        ),
        max_leaves=6,
    ),
    st.sampled_from([None, "interaction", "node", "user", "event"]),
)
def test_any_json_is_read_or_refused(value, kind):
    with suppress(InvalidRequest):
        predicate = from_json(value, kind)
        assert from_json(to_json(predicate), predicate.kind) == predicate
