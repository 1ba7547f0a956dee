"""Derives the OpenAPI document from the operations."""

from copy import deepcopy
from http import HTTPStatus
from typing import Any, Final

import pyarrow as pa

from attrib_ds.contract.catalogue import OPERATIONS
from attrib_ds.contract.operation import BASES, Answering, Operation
from attrib_ds.contract.request import Untitled
from attrib_ds.schema import NULL_UNKNOWN, RESOURCES, is_json

_SCHEMAS: Final = "#/components/schemas/"
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_BYTES: Final = "application/octet-stream"
_INTERFACE_VERSION: Final = "1.0.0"
_FILES: Final = ("text/csv", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
#: Phrases of statuses; older Python versions have another one of 413.
PHRASES: Final = {status.value: status.phrase for status in HTTPStatus} | {413: "Content Too Large"}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _header(name: str, description: str, schema: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "required": False, "schema": schema}


#: Headers that change the answer of some operations, by the operations.
_HEADERS: Final = {
    frozenset({"create_event", "create_event_sync", "create_events", "validate_event"}): _header(
        "X-Ingest-Key",
        "One of the project's ingest keys, if it has any and there is no token",
        {"type": "string"},
    ),
    frozenset({"create_event_sync", "list_trashed_events", "replay_event", "validate_event"}): _header(
        "X-Trashed-Field",
        "With `string`, errors name their field by its storage key, not as an object",
        {"const": "string"},
    ),
}
_COUNT: Final = {"type": "integer", "minimum": 0}
_ERROR: Final = {
    "type": "object",
    "required": ["statusCode", "message"],
    "properties": {
        "statusCode": {"type": "integer"},
        "message": {"type": "string"},
        "error": {"type": "string"},
        "details": {"type": "array", "items": {"type": "object"}},
        "requestId": {"type": "string"},
    },
}
#: Outcome of one event of a batch.
_OUTCOME: Final = {
    "oneOf": [
        _object({"id": {"type": "string", "format": "uuid"}}),
        _object({"error": {"$ref": f"{_SCHEMAS}Error"}}),
    ]
}
_TOKEN: Final = {
    "type": "object",
    "required": ["access_token", "expires_in", "token_type", "scope"],
    "properties": {
        "access_token": {"type": "string"},
        "expires_in": {"type": "integer"},
        "token_type": {"const": "Bearer"},
        "scope": {"type": "string"},
    },
}
_TOKEN_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
}


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of every operation that has a path.

    Returns
    -------
    dict
        Ready for ``json.dumps``; the same on every call.

    Examples
    --------
    >>> sorted(document()["paths"]["/api/v1/projects/{projectId}/interactions/search"])
    ['post']
    """
    schemas: dict[str, Any] = {name: _resource(schema) for name, schema in RESOURCES.items()}
    schemas |= deepcopy({"Error": _ERROR, "Token": _TOKEN, "TokenError": _TOKEN_ERROR})
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS.values():
        if operation.base == "embedded":
            continue
        members = paths.setdefault(f"{BASES[operation.base]}{operation.path}", {})
        request = operation.request.model_json_schema(
            ref_template=f"{_SCHEMAS}{{model}}", schema_generator=Untitled
        )
        schemas |= request.pop("$defs", {})
        for method in (operation.method, *operation.synonyms):
            members[method.lower()] = _path_item(operation, method, request)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Attribution service", "version": _INTERFACE_VERSION},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _path_item(operation: Operation, method: str, request: dict[str, Any]) -> dict[str, Any]:
    is_synonym = method != operation.method
    headers = [deepcopy(header) for names, header in _HEADERS.items() if operation.name in names]
    item = {
        "operationId": f"{operation.name}_{method.lower()}" if is_synonym else operation.name,
        "summary": operation.title + (f" (synonym of {operation.method})" if is_synonym else ""),
        "description": request["description"],
        "parameters": [*_parameters(operation, request), *headers],
        "responses": _responses(operation),
        "security": _security(operation),
    }
    if operation.has_body:
        item["requestBody"] = _body(operation, request)
    return item


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    if operation.base == "auth":
        return []
    # An empty entry makes the token optional: it is checked if it is sent.
    return [{"token": []}] if operation.token else [{}, {"token": []}]


def _parameters(operation: Operation, request: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": operation.location(name),
            "required": name in request.get("required", ()),
            "schema": _without_null(schema),
        }
        for name, schema in request["properties"].items()
        if operation.location(name) != "body"
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a path or query parameter, which cannot be null."""
    present = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(present) != 1:
        return schema
    rest = {name: value for name, value in schema.items() if name not in {"anyOf", "default"}}
    return {**rest, **present[0]}


def _body(operation: Operation, request: dict[str, Any]) -> dict[str, Any]:
    if operation.upload:
        return {"required": True, "content": {_BYTES: {"schema": {"type": "string", "format": "binary"}}}}
    members = {
        name: schema for name, schema in request["properties"].items() if operation.location(name) == "body"
    }
    required = [name for name in request.get("required", ()) if name in members]
    schema = {"type": "object", "properties": members} | ({"required": required} if required else {})
    if operation.body:
        schema = members[operation.body]
    media = _FORM if operation.base == "auth" else _JSON
    return {"required": bool(required), "content": {media: {"schema": schema}}}


def _responses(operation: Operation) -> dict[str, Any]:
    error = {"$ref": f"{_SCHEMAS}{'TokenError' if operation.base == 'auth' else 'Error'}"}
    responses: dict[str, Any] = {}
    for status in operation.answered_statuses:
        listed = operation.extension or status in operation.statuses
        phrase = PHRASES[status] + ("" if listed else " (not listed by the specification)")
        content = _content(operation) if status < 300 else {_JSON: {"schema": error}}
        responses[str(status)] = {"description": phrase, "content": content}
    return responses | {
        "default": {"description": "Any other failure", "content": {_JSON: {"schema": error}}}
    }


def _content(operation: Operation) -> dict[str, Any]:
    if operation.answer.kind == "file":
        # Exports have a format; backups are plain bytes.
        has_format = "outputFormatConfig" in operation.request.model_fields
        bytes_ = {"schema": {"type": "string", "format": "binary"}}
        return dict.fromkeys(_FILES if has_format else (_BYTES,), bytes_)
    return {_JSON: {"schema": _answer_schema(operation.answer)}}


def _answer_schema(answer: Answering) -> dict[str, Any]:
    record = {"$ref": f"{_SCHEMAS}{answer.resource}"}
    page: dict[str, Any] = {"count": _COUNT, "total": _COUNT, "data": {"type": "array", "items": record}}
    if answer.echo:
        page |= {"offset": _COUNT, "limit": {**_COUNT, "type": ["integer", "null"]}}
    shapes: dict[str, dict[str, Any]] = {
        "page": _object(page),
        "array": {"type": "array", "items": record},
        "record": record,
        "id": _object({"id": {"type": "string"}}),
        "modified": _object({"modifiedCount": _COUNT}),
        "counts": {"type": "object", "additionalProperties": _COUNT},
        "uuid": {"type": "string", "format": "uuid"},
        "token": {"$ref": f"{_SCHEMAS}Token"},
        "outcomes": {"type": "array", "items": deepcopy(_OUTCOME)},
        "errors": _object({"errors": {"type": "array", "items": {"type": "object"}}}),
        "object": {"type": "object"},
    }
    return shapes[answer.kind]


def _resource(schema: pa.Schema) -> dict[str, Any]:
    root: dict[str, Any] = {"type": "object", "properties": {}}
    for field in schema:
        *parents, leaf = field.name.split(".")
        holder = root
        for parent in parents:
            kind: Any = ["object", "null"] if parent in NULL_UNKNOWN else "object"
            holder = holder["properties"].setdefault(parent, {"type": kind, "properties": {}})
        holder["properties"][leaf] = {} if is_json(field) else _leaf(field.type)
    return root


def _leaf(column: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(column):
        return {"type": ["array", "null"], "items": _leaf(column.value_type)}
    if pa.types.is_timestamp(column):
        return {"type": ["string", "null"], "format": "date-time"}
    if pa.types.is_boolean(column):
        return {"type": ["boolean", "null"]}
    if pa.types.is_integer(column):
        return {"type": ["integer", "null"]}
    if pa.types.is_floating(column) or pa.types.is_decimal(column):
        return {"type": ["number", "null"]}
    return {"type": ["string", "null"]}
