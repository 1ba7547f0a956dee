"""Building requests, and the messages of refused ones."""

from __future__ import annotations

import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pandas as pd
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import json_values

from attrib_ds.contract import OPERATIONS, Request, build, from_wire
from attrib_ds.errors import InvalidRequest

Ask = Callable[..., Request]
Refusal = Callable[..., str]

SEARCH = OPERATIONS["search_interactions"]
TOKEN = OPERATIONS["exchange_token"]
SECRET = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def test_arguments_have_either_name() -> None:
    by_argument = build(SEARCH, project_id="shop", columns=["type"], bots=None)
    by_attribute = build(SEARCH, projectId="shop", projection=["type"], isBot=None)
    assert by_argument == by_attribute
    assert by_argument.isBot is None


def test_an_unknown_argument_is_a_mistake_of_the_program() -> None:
    with pytest.raises(TypeError, match="search_interactions: there is no argument 'colums'"):
        build(SEARCH, project_id="shop", colums=["type"])


def test_requests_are_frozen(ask: Ask) -> None:
    request = ask("search_interactions", limit=5)
    with pytest.raises(pydantic.ValidationError):
        request.limit = 6


def test_all_violations_are_in_one_message() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(SEARCH, project_id="Shop", limit=-1, bots="no", columns=["type", "nonsense"])
    parts = caught.value.message.split("; ")
    assert [part.partition(":")[0] for part in parts if not part.startswith(("allowed", "expected"))] == [
        "project_id",
        "bots",
        "columns/1",
        "limit",
    ]
    assert caught.value.field == "project_id"


def test_details_are_for_machines() -> None:
    with pytest.raises(InvalidRequest) as caught:
        from_wire(SEARCH, path={"projectId": "shop"}, body={"limit": -1, "sort": {"geo": 1}})
    assert [(record["field"], record["attribute"], record["got"]) for record in caught.value.details] == [
        ("/sort", "sort", "{'geo': 1}"),
        ("/limit", "limit", "-1"),
    ]
    assert caught.value.details[1]["problem"] == (
        "-1 is not allowed; expected a whole number, 0 or more (no limit if left out)"
    )


def test_python_names_and_json_names_differ() -> None:
    with pytest.raises(InvalidRequest, match=r"^columns/0: "):
        build(SEARCH, project_id="shop", columns=["nonsense"])
    with pytest.raises(InvalidRequest, match=r"^/projection/0: "):
        from_wire(SEARCH, path={"projectId": "shop"}, body={"projection": ["nonsense"]})
    with pytest.raises(InvalidRequest, match=r"^projectId: "):
        from_wire(SEARCH, path={"projectId": "Shop"}, body={})


@pytest.mark.parametrize("assertion", [SECRET.encode(), [SECRET], {"jwt": SECRET}, SECRET + "\ud800"])
def test_an_assertion_is_in_no_message(assertion: object) -> None:
    for call in (
        lambda: build(TOKEN, grant_type="password", client_id=5, assertion=assertion),
        lambda: from_wire(TOKEN, body={"grant_type": "password", "client_id": 5, "assertion": assertion}),
    ):
        with pytest.raises(InvalidRequest) as caught:
            call()
        told = "".join(traceback.format_exception(caught.value)) + repr(caught.value.details)
        assert "assertion: the value is not allowed" in told
        assert "c2VjcmV0" not in told
        assert caught.value.__cause__ is None


def test_an_assertion_is_in_no_repr() -> None:
    request = build(TOKEN, grant_type=JWT_BEARER, client_id="c", assertion=SECRET)
    assert request.assertion == SECRET
    assert "c2VjcmV0" not in repr(request) + str(request)


def test_a_body_that_is_no_object_does_not_show_itself() -> None:
    with pytest.raises(InvalidRequest) as caught:
        from_wire(TOKEN, body=f"assertion={SECRET}")
    assert caught.value.message == "body: str is not allowed; expected an object"


@pytest.mark.parametrize("missing", ["grant_type", "client_id", "assertion"])
def test_a_token_needs_three_parts(missing: str) -> None:  # R308
    body = {"grant_type": JWT_BEARER, "client_id": "c", "assertion": SECRET}
    del body[missing]
    with pytest.raises(InvalidRequest, match=f"^/{missing}: is required$"):
        from_wire(TOKEN, body=body)


@pytest.mark.parametrize("body", [[], "text", 5, True])
def test_a_body_is_an_object(body: object) -> None:  # R321
    with pytest.raises(InvalidRequest, match=r"^body: .* is not allowed; expected an object$"):
        from_wire(SEARCH, path={"projectId": "shop"}, body=body)


@pytest.mark.parametrize("body", [{}, "text", 5, True])
def test_a_body_is_an_array_where_that_is_taken(body: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^body: .* is not allowed; expected an array$"):
        from_wire(OPERATIONS["set_rates"], path={"projectId": "shop"}, body=body)


def test_items_of_an_array_are_named_by_their_place() -> None:
    with pytest.raises(InvalidRequest, match="^/0/rate: is required; /1: 5 is not allowed"):
        from_wire(
            OPERATIONS["set_rates"],
            path={"projectId": "shop"},
            body=[{"currency": "NOK", "date": "2025-01-01"}, 5],
        )
    with pytest.raises(InvalidRequest, match="^body: is required$"):
        from_wire(OPERATIONS["set_rates"], path={"projectId": "shop"})


def test_unknown_properties_are_ignored() -> None:  # G-043
    path = {"projectId": "shop"}
    assert from_wire(SEARCH, path=path, body={"colour": 1}) == from_wire(SEARCH, path=path, body={})
    listing = OPERATIONS["list_nodes"]
    assert from_wire(listing, path=path, query={"colour": "1"}) == from_wire(listing, path=path)


def test_each_attribute_is_read_from_its_own_place() -> None:
    body = {"projectId": "other", "limit": 5}
    request = from_wire(SEARCH, path={"projectId": "shop"}, query={"offset": "3"}, body=body)
    assert (request.projectId, request.limit, request.offset) == ("shop", 5, 0)


def test_null_is_not_given_except_where_it_is_a_value() -> None:  # R153
    path = {"projectId": "shop"}
    nulls = from_wire(SEARCH, path=path, body={"offset": None, "limit": None, "sort": None, "isBot": None})
    assert (nulls.offset, nulls.limit, nulls.sort, nulls.isBot) == (0, None, None, None)


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"a": [1, 2]}),
        np.arange(100_000),
        "x" * 10_000_000,
        list(range(100_000)),
        {"a": "x" * 1_000_000},
        10**5_000,
        object(),
        build,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("argument", ["since", "where", "columns", "sort", "limit", "bots", "filtered"])
def test_messages_stay_short_and_on_one_line(refusal: Refusal, argument: str, value: object) -> None:
    message = refusal("search_interactions", **{argument: value})
    assert message.startswith(argument)
    assert len(message) < 50_000
    assert "\n" not in message


def test_a_long_list_of_violations_is_cut() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(SEARCH, project_id="shop", columns=["nonsense"] * 100)
    assert caught.value.message.endswith("; and 80 more")
    assert len(caught.value.details) == 20


def test_a_list_is_bounded(refusal: Refusal) -> None:
    message = refusal("search_interactions", columns=[5] * 1_000_000)
    assert message == "columns: [5, 5, 5, 5, 5, 5, ...] is not allowed; expected a list of 1 to 10,000 items"


def test_a_pointer_is_escaped() -> None:
    operation = OPERATIONS["create_event_type"]
    body = {"reference": "order", "name": "Order", "fields": [{"type": "a/b"}]}
    with pytest.raises(InvalidRequest, match="^/fields/0/type: 'a/b' is not allowed"):
        from_wire(operation, path={"projectId": "shop"}, body=body)


@pytest.mark.slow
def test_the_contract_imports_no_engine() -> None:
    script = (
        "import sys, attrib_ds.contract, attrib_ds.contract.openapi; "
        "print(sorted({'ibis', 'duckdb', 'pandas', 'matplotlib', 'requests'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=20, deadline=2_000)
@given(data=st.data())
def test_any_body_is_read_or_refused(name: str, data: st.DataObject) -> None:
    operation = OPERATIONS[name]
    attributes = sorted(operation.request.model_fields)
    values = json_values(attributes)
    members = st.fixed_dictionaries({}, optional=dict.fromkeys(attributes, values))
    texts = st.dictionaries(st.sampled_from(attributes), st.text(max_size=20), max_size=4)
    path = dict.fromkeys(re.findall(r"{(\w+)}", operation.path), "5f0c0ffee0ddba11ad0be123")
    with suppress(InvalidRequest):
        from_wire(operation, path=path, query=data.draw(texts), body=data.draw(members | values))
