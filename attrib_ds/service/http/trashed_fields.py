"""Writes the field of a trashed event's error as text, if a request asks for it (G-212)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from attrib_ds.contract.json_values import encode
from attrib_ds.json_numbers import load_exact
from attrib_ds.service.http.error_responses import with_wire_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.datastructures import Headers

    from attrib_ds.contract import Answer, Operation
    from attrib_ds.errors import AttribError


def wants_text(headers: Headers) -> bool:
    """Return whether a request has the header ``X-Trashed-Field: string``."""
    return headers.get("x-trashed-field", "").strip().lower() == "string"


def with_text_fields(operation: Operation, answer: Answer) -> Answer:
    """Return an answer whose errors name their fields by storage key."""
    if operation.answer.kind == "errors":
        errors: Any = answer.value
        return replace(answer, value=text_fields(errors))
    if operation.answer.resource != "TrashedEvent":
        return answer
    return replace(answer, tables=(_converted(table) for table in answer.tables))


def with_names_of_client(error: AttribError, operation: Operation, headers: Headers) -> AttribError:
    """Return an error that names arguments as the API does, and fields as the request asks for."""
    if error.details and wants_text(headers):
        error.details = text_fields(error.details)
    return with_wire_names(error, operation)


def text_fields(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return errors with the storage key in the place of the field.

    Examples
    --------
    >>> text_fields([{"type": "missing-field", "field": {"storageKey": "email"}, "value": None}])
    [{'type': 'missing-field', 'field': 'email', 'value': None}]
    """
    return [{**error, "field": _text(error.get("field"))} for error in errors]


def _text(field: Any) -> Any:
    return field["storageKey"] if isinstance(field, Mapping) else field


def _converted(table: pa.Table) -> pa.Table:
    texts = [encode(text_fields(load_exact(text))) for text in table["errors"].to_pylist()]
    position = table.schema.get_field_index("errors")
    return table.set_column(position, table.schema.field("errors"), pa.array(texts, pa.string()))
