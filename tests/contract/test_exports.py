from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attrib_ds.contract import Request
from attrib_ds.filters import user

Ask = Callable[..., Request]
Refusal = Callable[..., str]

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


@pytest.mark.parametrize("missing", EXPORT)
def test_exports_need_four_parts(bad_request: Refusal, missing: str) -> None:  # R256
    rest = {name: value for name, value in EXPORT.items() if name != missing}
    assert bad_request("export_users", body=rest) == f"/{missing}: is required"


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


@pytest.mark.parametrize("accepted", ["users", "a" * 128, "été 2025.v1", ".."])
def test_filenames_accepted(receive: Ask, accepted: str) -> None:
    assert receive("export_users", body=EXPORT | {"filename": accepted}).filename == accepted


@pytest.mark.parametrize(
    "refused", ["", "a" * 129, "a/b", "a\\b", "a\x00", "a\n", "a\x7f", "\x85", "\ud800", 5, None]
)
def test_filenames_refused(bad_request: Refusal, refused: object) -> None:  # G-120
    assert bad_request("export_users", body=EXPORT | {"filename": refused}).startswith("/filename: ")


@pytest.mark.parametrize(("given", "held"), [("csv", "csv"), ("XLSX", "xlsx"), ("Csv", "csv")])
def test_types_accepted(receive: Ask, given: str, held: str) -> None:  # R257, G-119
    request = receive("export_users", body=_with("outputFormatConfig", type=given))
    assert request.outputFormatConfig.type == held


@pytest.mark.parametrize(
    ("part", "members", "label"),
    [
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
    ],
)
def test_parts_refused(bad_request: Refusal, part: str, members: dict[str, Any], label: str) -> None:
    assert bad_request("export_users", body=_with(part, **members)).startswith(f"{label}: ")


def test_parts_are_objects(bad_request: Refusal) -> None:
    message = bad_request("export_users", body=EXPORT | {"outputFormatConfig": "csv"})
    assert message == "/outputFormatConfig: 'csv' is not allowed; expected an object"


@pytest.mark.parametrize("audience", ["a1", {"type": "audience", "operator": "in", "value": ["a1"]}])
def test_an_audience_is_an_id_or_a_condition(receive: Ask, audience: object) -> None:  # R259
    request = receive("export_users", body=_with("exporterDataConfig", audience=audience))
    assert request.exporterDataConfig.audience == audience


@pytest.mark.parametrize(
    "accepted",
    [
        {"type": "date", "key": "createdAt", "level": "week"},
        {"type": "number", "key": "_id", "level": 0},
        {"type": "case", "key": "fields.email", "level": "lower"},
        {"type": "hash", "key": "fields.email", "level": "sha256"},
        {"type": "hash", "key": "fields.email"},
        {"type": "join", "key": "fields.email", "level": ", "},
    ],
)
def test_transformers_accepted(receive: Ask, accepted: dict[str, Any]) -> None:  # R260, G-123
    request = receive("export_users", body=EXPORT | {"transformerConfig": [accepted]})
    assert request.transformerConfig[0].type == accepted["type"]


@pytest.mark.parametrize(
    ("refused", "label"),
    [
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
    ],
)
def test_transformers_refused(bad_request: Refusal, refused: dict[str, Any], label: str) -> None:
    message = bad_request("export_users", body=EXPORT | {"transformerConfig": [refused]})
    assert message.startswith(f"/transformerConfig/0/{label}: ")


def test_python_messages_name_python_arguments(refusal: Refusal) -> None:
    message = refusal(
        "export_users",
        path="users",
        columns=["_id"],
        format="csv",
        transformers=[{"type": "date", "key": "createdAt", "level": "day"}],
    )
    assert message == "transformers/0/key: 'createdAt' is not among the columns"
