"""Requests about users: searches, audiences and exports."""

from collections.abc import Callable
from typing import Any

import pytest

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.contract import Request
from attrib_ds.filters import interaction, user

Ask = Callable[..., Request]
Refusal = Callable[..., str]

LOW, HIGH = "0" * 24, "f" * 24


def test_fields_are_required(bad_request: Refusal) -> None:  # R234
    assert bad_request("search_users", body={}) == "/fields: is required"
    assert bad_request("search_users", body={"fields": None}) == "/fields: is required"


def test_fields_may_be_empty(receive: Ask) -> None:  # R236
    assert receive("search_users", body={"fields": []}).fields == ()


def test_keys_accepted(ask):
    for accepted in [
        "_id",
        "eventCount",
        "interactionCount",
        "hitCount",
        "firstEventDate",
        "lastInteractionNodeId",
        "audienceIds",
        "vendorUserIds",
        "eventTypesCount",
        "eventTypeMeta",
        "metrics",
        "fields.email",
        "fields.first_name",
        "eventTypesCount.order-paid",
        "metrics.event-count.sum",
        "metrics.revenue.max",
        "metrics.revenue.min",
        "metrics.revenue.count",
        "metrics.state-delay-converted.average",
    ]:
        request = ask("search_users", fields=[accepted], sort=accepted)
        assert (request.fields, request.sort) == ((accepted,), accepted), accepted


def test_keys_refused(refusal):
    for refused in [
        "eventcount",
        "fields",
        "fields.",
        "eventTypesCount.",
        "metrics.revenue",
        "metrics.revenue.",
        "metrics.revenue.median",
        "metrics.revenue.SUM",
        "metrics..sum",
        "",
        "nonsense",
        5,
        None,
    ]:
        assert refusal("search_users", columns=["_id", refused]).startswith("columns/1: "), refused


def test_keys_of_other_services_are_sent_and_ours_are_known(ask):
    """G-258."""
    with at.connect("my-shop", path=":memory:") as shop:
        for foreign in ["fields.a b", "fields.email\n", "eventTypesCount.Order", "metrics.revenue.sum.sum"]:
            assert ask("search_users", fields=[foreign]).fields == (foreign,)
            with pytest.raises(errors.InvalidRequest, match="^columns/0: .* is not allowed"):
                at.search_users(shop, columns=[foreign])


def test_an_unknown_aggregation_is_told(refusal: Refusal) -> None:
    assert refusal("search_users", fields=[], sort="metrics.revenue.avg") == (
        "sort: 'metrics.revenue.avg' has an unknown aggregation (did you mean 'average'?); "
        "allowed: sum, max, min, count, average"
    )


def test_the_closest_counter_is_named(refusal: Refusal) -> None:
    assert "(did you mean 'eventCount'?)" in refusal("search_users", fields=["eventCounts"])


def test_modes_accepted(ask):
    for accepted in ["latest", "earliest", "alphabetical"]:
        assert ask("search_users", fields=[], multi_field_mode=accepted).multiFieldMode == accepted, accepted


def test_the_default_mode_is_latest(ask: Ask) -> None:
    assert ask("search_users", fields=[]).multiFieldMode == "latest"


def test_modes_refused(refusal):
    for refused in ["first", "newest", "LATEST", "", 1]:
        assert refusal("search_users", fields=[], multi_field_mode=refused).startswith(
            "multi_field_mode: "
        ), refused


def test_bounds_are_ids(ask, refusal, bad_request):
    for bound in ["idAfter", "idFrom", "idTo"]:
        assert getattr(ask("search_users", fields=[], **{bound: LOW}), bound) == LOW, bound
        for refused in (LOW[1:], "F" * 24, LOW + "\n", "", "nonsense", 5):
            assert bad_request("search_users", body={"fields": [], bound: refused}).startswith(
                f"/{bound}: "
            ), bound


def test_equal_bounds_are_valid(ask: Ask) -> None:  # R247
    assert ask("search_users", fields=[], id_from=LOW, id_to=LOW).idTo == LOW
    assert ask("search_users", fields=[], id_from=HIGH, id_to=LOW).idFrom == HIGH


def test_orders_refused(refusal):
    for refused in ["asc", "Desc", -1, "", 1]:
        assert refusal("search_users", fields=[], order=refused).startswith("order: "), refused


def test_a_boolean_is_no_order(refusal: Refusal, bad_request: Refusal) -> None:
    assert refusal("search_users", fields=[], order=True).startswith("order: ")
    assert bad_request("search_users", body={"fields": [], "order": True}).startswith("/order: ")


def test_orders_accepted(ask: Ask) -> None:
    assert ask("search_users", fields=[], order="DESC").order == "DESC"
    assert ask("search_users", fields=[]).order is None


def test_queries_are_bounded(ask: Ask, refusal: Refusal) -> None:  # G-096
    assert ask("search_users", fields=[], sql="x" * 8_192).sqlQuery == "x" * 8_192
    assert refusal("search_users", fields=[], sql="x" * 8_193).startswith("sql: ")
    assert refusal("search_users", fields=[], sql="").startswith("sql: ")


def test_filters_are_predicates_of_users(ask: Ask, refusal: Refusal) -> None:  # R243
    predicate = user("fields.email").contains("@example.org")
    written = {
        "type": "fields",
        "field": "email",
        "operatorType": "string",
        "operator": "contains",
        "value": "@example.org",
    }
    assert ask("search_users", fields=[], where=predicate).filters == predicate
    assert ask("search_users", fields=[], where=written).filters == predicate
    operation = {"type": "operation", "operator": "OR", "operands": [written, written]}
    assert ask("search_users", fields=[], where=operation).filters == predicate | predicate
    other = interaction("type") == "session"
    assert refusal("search_users", fields=[], where=other).startswith("where: filters interactions")


def test_event_sorts_accepted(ask):
    for accepted in ["eventDate", "createdAt", "updatedAt", "_id"]:
        assert ask("list_user_events", sort=accepted).sort == accepted, accepted


def test_metric_sorts_accepted(ask):
    for accepted in ["createdAt", "updatedAt", "metricDate"]:
        assert ask("list_user_metrics", sort=accepted).sort == accepted, accepted


def test_sorts_of_another_list_are_refused(refusal: Refusal) -> None:
    assert refusal("list_user_events", sort="metricDate").startswith("sort: ")
    assert refusal("list_user_metrics", sort="eventDate").startswith("sort: ")


def test_metric_types(ask: Ask, refusal: Refusal) -> None:  # R266
    assert ask("list_user_metrics", type="state").type == "state"
    assert ask("list_user_metrics", type="statistic").type == "statistic"
    assert ask("list_user_metrics").type is None
    assert refusal("list_user_metrics", type="number").startswith("type: ")


BUYERS = {"type": "event", "eventType": "order", "operator": "greaterThanOrEquals", "value": 2}
VISITORS = {
    "type": "interaction",
    "filter": {"type": "predicate", "field": "geo.countryCode", "operator": "equals", "value": "FR"},
    "operator": "equals",
    "value": 0,
}
BIG = {"type": "predicate", "field": "statistics.turnover", "operator": "greaterThan", "value": 100}
MEMBERS = {"type": "audience", "operator": "in", "value": ["a1", "a2"]}
COUNTED = {"type": "counters", "field": "eventCount", "operator": "greaterThan", "value": 3}


def _all_of(*rules: Any) -> dict[str, Any]:
    return {"type": "condition", "condition": "AND", "rules": list(rules)}


def test_conditions_accepted(ask):
    for accepted in [
        BUYERS,
        BUYERS | {"since": "2025-01-01T00:00:00Z", "until": None},
        BUYERS | {"filter": BIG},
        VISITORS,
        {"type": "interaction", "operator": "greaterThan", "value": 0},
        MEMBERS,
        MEMBERS | {"operator": "notIn"},
        COUNTED,
        _all_of(),
        _all_of(BUYERS, _all_of(VISITORS, MEMBERS, COUNTED)) | {"not": True},
        {"type": "operation", "operator": "OR", "operands": [BUYERS, COUNTED]},
    ]:
        assert ask("search_users", fields=[], audience=accepted).audienceCondition == accepted, accepted


def test_conditions_refused(refusal):
    for refused in [
        "a1",
        5,
        [BUYERS],
        {},
        {"type": "events"},
        BUYERS | {"eventType": None},
        BUYERS | {"operator": "contains"},
        BUYERS | {"value": -1},
        BUYERS | {"value": 1.5},
        BUYERS | {"value": "2"},
        BUYERS | {"value": True},
        BUYERS | {"since": "2025-01-01"},
        BUYERS | {"filter": BIG | {"field": "statistic.turnover"}},
        BUYERS | {"filter": BIG | {"field": "event.seats"}},
        BUYERS | {"filter": {"type": "predicate", "field": "attributable", "operator": "isNull"}},
        VISITORS | {"filter": {"type": "predicate", "field": "geo.cty", "operator": "equals", "value": "x"}},
        VISITORS | {"value": None},
        MEMBERS | {"value": []},
        MEMBERS | {"value": "a1"},
        MEMBERS | {"value": [5]},
        MEMBERS | {"value": ["a"] * 10_001},
        MEMBERS | {"operator": "equals"},
        COUNTED | {"field": "eventCnt"},
        _all_of(BUYERS, 5),
        _all_of(BUYERS) | {"condition": "XOR"},
        _all_of(BUYERS) | {"not": "yes"},
        {"type": "condition", "condition": "AND", "rules": BUYERS},
        {"type": "condition", "condition": "AND"},
        _all_of(*[MEMBERS] * 200),
    ]:
        assert refusal("search_users", fields=[], audience=refused).startswith("audience"), refused


def test_conditions_have_up_to_ten_levels(ask: Ask, refusal: Refusal) -> None:
    tree = MEMBERS
    for _ in range(9):
        tree = _all_of(tree)
    assert ask("search_users", fields=[], audience=tree).audienceCondition == tree
    told = "audience: is nested too deeply; expected at most 10 levels"
    assert refusal("search_users", fields=[], audience=_all_of(tree)) == told


def test_predicates_of_users_are_conditions(ask: Ask, refusal: Refusal) -> None:
    request = ask("search_users", fields=[], audience=user("eventCount") > 3)
    assert request.audienceCondition == COUNTED | {"operatorType": "number"}
    other = interaction("type") == "session"
    assert refusal("search_users", fields=[], audience=other).startswith("audience: filters interactions")


def test_the_values_of_a_condition_have_limits_together(ask: Ask, refusal: Refusal) -> None:
    rules = [
        {"type": "fields", "field": "note", "operatorType": "string", "operator": "contains", "value": "a"}
    ]
    searched = VISITORS | {
        "filter": {"type": "predicate", "field": "geo.city", "operator": "matches", "value": "a"}
    }
    allowed = _all_of(_all_of(*rules * 30), *[searched] * 20)
    assert ask("search_users", fields=[], audience=allowed).audienceCondition == allowed
    for excessive in (_all_of(*rules * 51), _all_of(allowed, *rules)):
        message = refusal("search_users", fields=[], audience=excessive)
        assert "at most 50 patterns and substrings, this one has 51" in message


EXPORT = {
    "filename": "users",
    "exporterDataConfig": {"columns": ["_id", "fields.email", "createdAt"]},
    "outputFormatConfig": {"type": "csv"},
    "transformerConfig": [],
}


def _with(part: str, **members: Any) -> dict[str, Any]:
    return EXPORT | {part: EXPORT[part] | members}  # type: ignore[operator]


def test_exports_accepted(receive: Ask) -> None:
    request = receive("export_users", body=EXPORT)
    assert request.exporterDataConfig.columns == ("_id", "fields.email", "createdAt")  # R262
    assert request.outputFormatConfig.sanitizeFormulas is True
    assert request.transformerConfig == ()


def test_exports_need_four_parts(bad_request):
    for missing in EXPORT:
        rest = {name: value for name, value in EXPORT.items() if name != missing}
        assert bad_request("export_users", body=rest) == f"/{missing}: is required", missing


def test_python_arguments_reach_the_parts(ask: Ask, receive: Ask) -> None:
    predicate = user("eventCount") > 3
    request = ask(
        "export_users",
        path="users",
        columns=["_id", "createdAt"],
        where=predicate,
        format="CSV",
        sanitize_formulas=False,
        transformers=[{"type": "date", "key": "createdAt", "level": "day"}],
    )
    assert request.filename == "users"
    assert request.exporterDataConfig.filters == predicate
    assert (request.outputFormatConfig.type, request.outputFormatConfig.sanitizeFormulas) == ("csv", False)
    assert request.transformerConfig[0].level == "day"


def test_filenames_accepted(receive):
    for accepted in ["users", "a" * 128, "été 2025.v1", ".."]:
        assert receive("export_users", body=EXPORT | {"filename": accepted}).filename == accepted, accepted


def test_filenames_refused(bad_request):
    for refused in ["", "a" * 129, "a/b", "a\\b", "a\x00", "a\n", "a\x7f", "\x85", "\ud800", 5, None]:
        assert bad_request("export_users", body=EXPORT | {"filename": refused}).startswith("/filename: "), (
            refused
        )


@pytest.mark.parametrize(("given", "held"), [("csv", "csv"), ("XLSX", "xlsx"), ("Csv", "csv")])
def test_types_accepted(receive: Ask, given: str, held: str) -> None:  # R257, G-119
    request = receive("export_users", body=_with("outputFormatConfig", type=given))
    assert request.outputFormatConfig.type == held


def test_parts_refused(bad_request):
    for part, members, label in [
        ("outputFormatConfig", {"type": "pdf"}, "/outputFormatConfig/type"),
        ("outputFormatConfig", {"type": 5}, "/outputFormatConfig/type"),
        ("outputFormatConfig", {"delimiter": "--"}, "/outputFormatConfig/delimiter"),
        ("outputFormatConfig", {"encoding": "latin-1"}, "/outputFormatConfig/encoding"),
        ("outputFormatConfig", {"sanitizeFormulas": "no"}, "/outputFormatConfig/sanitizeFormulas"),
        ("exporterDataConfig", {"columns": []}, "/exporterDataConfig/columns"),
        ("exporterDataConfig", {"columns": "_id"}, "/exporterDataConfig/columns"),
        ("exporterDataConfig", {"columns": ["_id", "nonsense"]}, "/exporterDataConfig/columns/1"),  # R258
        ("exporterDataConfig", {"filters": "x"}, "/exporterDataConfig/filters"),
        ("exporterDataConfig", {"audience": ""}, "/exporterDataConfig/audience"),
        ("exporterDataConfig", {"audience": {"type": "x"}}, "/exporterDataConfig/audience"),
    ]:
        assert bad_request("export_users", body=_with(part, **members)).startswith(f"{label}: "), (
            part,
            members,
        )


def test_parts_are_objects(bad_request: Refusal) -> None:
    message = bad_request("export_users", body=EXPORT | {"outputFormatConfig": "csv"})
    assert message == "/outputFormatConfig: 'csv' is not allowed; expected an object"


def test_an_audience_is_an_id_or_a_condition(receive):
    for audience in ["a1", {"type": "audience", "operator": "in", "value": ["a1"]}]:
        request = receive("export_users", body=_with("exporterDataConfig", audience=audience))
        assert request.exporterDataConfig.audience == audience, audience


def test_transformers_accepted(receive):
    for accepted in [
        {"type": "date", "key": "createdAt", "level": "week"},
        {"type": "number", "key": "_id", "level": 0},
        {"type": "case", "key": "fields.email", "level": "lower"},
        {"type": "hash", "key": "fields.email", "level": "sha256"},
        {"type": "hash", "key": "fields.email"},
        {"type": "join", "key": "fields.email", "level": ", "},
    ]:
        request = receive("export_users", body=EXPORT | {"transformerConfig": [accepted]})
        assert request.transformerConfig[0].type == accepted["type"], accepted


def test_transformers_refused(bad_request):
    for refused, label in [
        ({"type": "reverse", "key": "_id", "level": 1}, "type"),
        ({"key": "_id", "level": 1}, "type"),
        ({"type": "date", "level": "day"}, "key"),
        ({"type": "date", "key": "updatedAt", "level": "day"}, "key"),
        ({"type": "date", "key": "nonsense", "level": "day"}, "key"),
        ({"type": "date", "key": "createdAt", "level": "century"}, "level"),
        ({"type": "date", "key": "createdAt"}, "level"),
        ({"type": "number", "key": "_id", "level": -1}, "level"),
        ({"type": "number", "key": "_id", "level": True}, "level"),
        ({"type": "case", "key": "_id", "level": "title"}, "level"),
        ({"type": "hash", "key": "_id", "level": "md5"}, "level"),
        ({"type": "join", "key": "_id", "level": "x" * 17}, "level"),
    ]:
        message = bad_request("export_users", body=EXPORT | {"transformerConfig": [refused]})
        assert message.startswith(f"/transformerConfig/0/{label}: "), (refused, label)


def test_python_messages_name_python_arguments(refusal: Refusal) -> None:
    message = refusal(
        "export_users",
        path="users",
        columns=["_id"],
        format="csv",
        transformers=[{"type": "date", "key": "createdAt", "level": "day"}],
    )
    assert message == "transformers/0/key: 'createdAt' is not among the columns"
