from __future__ import annotations

from collections.abc import Callable

import pytest

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


@pytest.mark.parametrize(
    "accepted",
    [
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
    ],
)
def test_keys_accepted(ask: Ask, accepted: str) -> None:  # R238, R239, R242, G-107
    request = ask("search_users", fields=[accepted], sort=accepted)
    assert (request.fields, request.sort) == ((accepted,), accepted)


@pytest.mark.parametrize(
    "refused",
    [
        "eventcount",
        "fields",
        "fields.",
        "fields.a b",
        "fields.email\n",
        "eventTypesCount.",
        "eventTypesCount.Order",
        "metrics.revenue",
        "metrics.revenue.",
        "metrics.revenue.median",
        "metrics.revenue.SUM",
        "metrics..sum",
        "metrics.revenue.sum.sum",
        "",
        "nonsense",
        5,
        None,
    ],
)
def test_keys_refused(refusal: Refusal, refused: object) -> None:  # R239, R240
    assert refusal("search_users", columns=["_id", refused]).startswith("columns/1: ")


def test_an_unknown_aggregation_is_told(refusal: Refusal) -> None:
    assert refusal("search_users", fields=[], sort="metrics.revenue.avg") == (
        "sort: 'metrics.revenue.avg' has an unknown aggregation (did you mean 'average'?); "
        "allowed: sum, max, min, count, average"
    )


def test_the_closest_counter_is_named(refusal: Refusal) -> None:
    assert "(did you mean 'eventCount'?)" in refusal("search_users", fields=["eventCounts"])


@pytest.mark.parametrize("accepted", ["latest", "earliest", "alphabetical"])
def test_modes_accepted(ask: Ask, accepted: str) -> None:  # R250
    assert ask("search_users", fields=[], multi_field_mode=accepted).multiFieldMode == accepted


def test_the_default_mode_is_latest(ask: Ask) -> None:
    assert ask("search_users", fields=[]).multiFieldMode == "latest"


@pytest.mark.parametrize("refused", ["first", "newest", "LATEST", "", 1])
def test_modes_refused(refusal: Refusal, refused: object) -> None:
    assert refusal("search_users", fields=[], multi_field_mode=refused).startswith("multi_field_mode: ")


@pytest.mark.parametrize("bound", ["idAfter", "idFrom", "idTo"])
def test_bounds_are_ids(ask: Ask, refusal: Refusal, bad_request: Refusal, bound: str) -> None:  # R246, R248
    assert getattr(ask("search_users", fields=[], **{bound: LOW}), bound) == LOW
    for refused in (LOW[1:], "F" * 24, LOW + "\n", "", "nonsense", 5):
        assert bad_request("search_users", body={"fields": [], bound: refused}).startswith(f"/{bound}: ")


def test_equal_bounds_are_valid(ask: Ask) -> None:  # R247
    assert ask("search_users", fields=[], id_from=LOW, id_to=LOW).idTo == LOW
    assert ask("search_users", fields=[], id_from=HIGH, id_to=LOW).idFrom == HIGH


@pytest.mark.parametrize("refused", ["asc", "Desc", -1, "", 1])
def test_orders_refused(refusal: Refusal, refused: object) -> None:  # R244, G-098
    assert refusal("search_users", fields=[], order=refused).startswith("order: ")


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


@pytest.mark.parametrize("accepted", ["eventDate", "createdAt", "updatedAt", "_id"])
def test_event_sorts_accepted(ask: Ask, accepted: str) -> None:  # R264
    assert ask("list_user_events", sort=accepted).sort == accepted


@pytest.mark.parametrize("accepted", ["createdAt", "updatedAt", "metricDate"])
def test_metric_sorts_accepted(ask: Ask, accepted: str) -> None:  # R268
    assert ask("list_user_metrics", sort=accepted).sort == accepted


def test_sorts_of_another_list_are_refused(refusal: Refusal) -> None:
    assert refusal("list_user_events", sort="metricDate").startswith("sort: ")
    assert refusal("list_user_metrics", sort="eventDate").startswith("sort: ")


def test_metric_types(ask: Ask, refusal: Refusal) -> None:  # R266
    assert ask("list_user_metrics", type="state").type == "state"
    assert ask("list_user_metrics", type="statistic").type == "statistic"
    assert ask("list_user_metrics").type is None
    assert refusal("list_user_metrics", type="number").startswith("type: ")
