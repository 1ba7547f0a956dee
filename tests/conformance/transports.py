"""The two transports behind one method, ``send``, which returns status, body and headers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from attrib_ds.contract import BASES, OPERATIONS, build, from_wire
from attrib_ds.errors import AttribError
from attrib_ds.service import Service
from attrib_ds.service.http import errors, limits, responses

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds; long enough for a machine under load.
TIMEOUT = 60
JSON = "application/json"

Prepare = Callable[[Service], None]


class Reply(NamedTuple):
    """An answer: the status, parsed JSON or the bytes of a file, and the headers."""

    status: int
    body: Any
    headers: Mapping[str, str]

    def ok(self) -> Any:
        """Return the body, asserting a successful status."""
        assert self.status in (200, 201), (self.status, self.body)
        return self.body


def reply_of(status: int, content: bytes, headers: Mapping[str, str]) -> Reply:
    is_json = headers.get("Content-Type", JSON).partition(";")[0] == JSON and content
    return Reply(status, json.loads(content) if is_json else content, headers)


def _as_text(query: Mapping[str, Any]) -> dict[str, str]:
    return limits.parse_query(urlencode(query).encode())


def content_of(body: Any) -> bytes | None:
    """Write a body as JSON; bytes and None stay as they are."""
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


class Embedded:
    """Calls embedded services and writes their answers as a server does."""

    name = "embedded"

    def __init__(self, home: Path) -> None:
        self._home = home
        self._services: dict[str, Service] = {}

    def open(self, project_id: str, prepare: Prepare) -> None:
        service = Service.open(project_id, self._home / f"{project_id}.duckdb")
        self._services[project_id] = service
        prepare(service)

    def send(
        self,
        name: str,
        path: Mapping[str, str],
        query: Mapping[str, Any],
        body: Any,
        headers: Mapping[str, str],
    ) -> Reply:
        operation = OPERATIONS[name]
        content = content_of(body)
        try:
            parsed = None if content is None else limits.parse(content, is_array=bool(operation.body))
            request = from_wire(operation, path=path, query=_as_text(query), body=parsed)
            service = self._services.get(request.projectId) or next(iter(self._services.values()))
            response = self._respond(service, operation, request)
        except AttribError as error:
            failure = errors.to_http_error(errors.with_wire_names(error, operation))
            response = errors.response(failure, request_id="embedded", accept="")
        fields = {key.title(): value for key, value in response.headers.items()}
        return reply_of(response.status_code, bytes(response.body), fields)

    def _respond(self, service: Service, operation, request):
        if operation.answer.resource is None:
            return responses.with_value(operation, request, service.send(operation, request))
        with closing(service.stream(operation, request)) as rows:
            status = 200 if rows.value is False else operation.success
            content = b"".join(responses.json_chunks(rows, operation.answer))
        return responses.Response(content, status, media_type=JSON)

    def close(self) -> None:
        for service in self._services.values():
            service.close()


class OverHttp:
    """Calls a server, with a new connection for each request."""

    name = "http"

    def __init__(self, home: Path, url: str, token: str) -> None:
        self.home = home
        self.url = url
        self.token = token

    def open(self, project_id: str, prepare: Prepare) -> None:
        # The server opens the file at the first request for the project.
        with closing(Service.open(project_id, self.home / f"{project_id}.duckdb")) as service:
            prepare(service)

    def send(
        self,
        name: str,
        path: Mapping[str, str],
        query: Mapping[str, Any],
        body: Any,
        headers: Mapping[str, str],
    ) -> Reply:
        operation = OPERATIONS[name]
        target = BASES[operation.base] + operation.path.format_map(
            {name: quote(value, safe="") for name, value in path.items()}
        )
        return self.request(operation.method, target, query, body, headers)

    def request(
        self,
        method: str,
        target: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        token: str | None = "",
    ) -> Reply:
        """Send any request; without a token if ``token`` is None."""
        fields = dict(headers or {})
        if token is not None:
            fields.setdefault("Authorization", f"Bearer {token or self.token}")
        content = content_of(body)
        if content is not None:
            fields.setdefault("Content-Type", JSON)
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=TIMEOUT)
        try:
            connection.request(method, target + (f"?{urlencode(query)}" if query else ""), content, fields)
            response = connection.getresponse()
            return reply_of(response.status, response.read(), response.headers)
        finally:
            connection.close()


@dataclass(frozen=True)
class Project:
    """A project of the service; all operations go through :meth:`send`."""

    id: str
    transport: Embedded | OverHttp = field(repr=False)

    def send(
        self,
        operation: str,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one operation.

        Parameters
        ----------
        operation : str
            Its name in the catalogue.
        path, query : mapping, optional
            Parameters; the path may name another project.
        body : object, optional
            Written as JSON; bytes are sent unchanged.
        headers : mapping, optional
            Additional headers, ignored by the embedded service.

        Returns
        -------
        Reply
            Status, body and headers.
        """
        places = {"projectId": self.id, **(path or {})}
        return self.transport.send(operation, places, query or {}, body, headers or {})


def load(service: Service, project_id: str, **records: Any) -> None:
    """Load records in bulk, asserting that none is rejected."""
    operation = OPERATIONS["load_records"]
    for resource, source in records.items():
        request = build(operation, project_id=project_id, resource=resource, source=source)
        rejected = service.send(operation, request).read()
        assert rejected.num_rows == 0, rejected.to_pylist()


def carry_out(service: Service, project_id: str, name: str, /, **arguments: Any) -> Any:
    """Send an operation to an embedded service during setup, and return its value."""
    operation = OPERATIONS[name]
    return service.send(operation, build(operation, project_id=project_id, **arguments)).value
