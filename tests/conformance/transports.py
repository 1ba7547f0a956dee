"""The two ways to the service, behind one method: send an operation, get status, body and headers."""

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
from attrib_ds.service.http import bodies, failures, responding, writing

if TYPE_CHECKING:
    from pathlib import Path

#: Long enough for a machine under load; a test that waits so long has failed.
TIMEOUT = 60
JSON = "application/json"

Prepare = Callable[[Service], None]


class Reply(NamedTuple):
    """What came back: the status, parsed JSON or the bytes of a file, and the headers."""

    status: int
    body: Any
    headers: Mapping[str, str]

    def ok(self) -> Any:
        """Return the body of an answer that must be a success."""
        assert self.status in (200, 201), (self.status, self.body)
        return self.body


def reply_of(status: int, content: bytes, headers: Mapping[str, str]) -> Reply:
    is_json = headers.get("Content-Type", JSON).partition(";")[0] == JSON and content
    return Reply(status, json.loads(content) if is_json else content, headers)


def _as_text(query: Mapping[str, Any]) -> dict[str, str]:
    return bodies.parse_query(urlencode(query).encode())


def content_of(body: Any) -> bytes | None:
    """Write a body as JSON, unless it is bytes already; None is no body."""
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


class Embedded:
    """Calls services in this process, and writes what they answer as a server writes it."""

    name = "embedded"

    def __init__(self, home: Path) -> None:
        self._home = home
        self._services: dict[str, Service] = {}

    def open(self, project_id: str, prepare: Prepare) -> None:
        service = Service.open(project_id, self._home / f"{project_id}.duckdb")
        self._services[project_id] = service
        prepare(service)

    def reopen(self, project_id: str) -> None:
        """Open a project as a new process would."""
        self._services.pop(project_id).close()
        self.open(project_id, lambda service: None)

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
            parsed = None if content is None else bodies.parse(content, is_array=bool(operation.body))
            asked = from_wire(operation, path=path, query=_as_text(query), body=parsed)
            service = self._services.get(asked.projectId) or next(iter(self._services.values()))
            response = self._respond(service, operation, asked)
        except AttribError as error:
            failure = failures.failed(failures.renamed(error, operation))
            response = failures.response(failure, request_id="embedded", accept="")
        fields = {key.title(): value for key, value in response.headers.items()}
        return reply_of(response.status_code, bytes(response.body), fields)

    def _respond(self, service: Service, operation, asked):
        if operation.answer.resource is None:
            return responding.with_value(operation, asked, service.send(operation, asked))
        with closing(service.stream(operation, asked)) as rows:
            status = 200 if rows.value is False else operation.success
            content = b"".join(writing.json_pieces(rows, operation.answer))
        return responding.Response(content, status, media_type=JSON)

    def close(self) -> None:
        for service in self._services.values():
            service.close()


class OverHttp:
    """Calls a server, a new connection for each request."""

    name = "http"

    def __init__(self, home: Path, url: str, token: str) -> None:
        self.home = home
        self.url = url
        self.token = token

    def open(self, project_id: str, prepare: Prepare) -> None:
        # The server opens the file when it is asked for the project, and not before.
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
            {each: quote(value, safe="") for each, value in path.items()}
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
        """Make any request; without a token where that is None."""
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
    """One project of the service; every operation is asked through :meth:`send`."""

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
            Parameters; the project is this one unless the path names another.
        body : object, optional
            What is written as JSON, or bytes that are sent as they are.
        headers : mapping, optional
            Further headers; only a server reads them.

        Returns
        -------
        Reply
            Status, body and headers.
        """
        places = {"projectId": self.id, **(path or {})}
        return self.transport.send(operation, places, query or {}, body, headers or {})


def load(service: Service, project_id: str, **records: Any) -> None:
    """Load records in bulk; none of them may be rejected."""
    operation = OPERATIONS["load_records"]
    for resource, source in records.items():
        request = build(operation, project_id=project_id, resource=resource, source=source)
        rejected = service.send(operation, request).read()
        assert rejected.num_rows == 0, rejected.to_pylist()


def carry_out(service: Service, project_id: str, name: str, /, **arguments: Any) -> Any:
    """Carry out an operation that only prepares a project, and return its value."""
    operation = OPERATIONS[name]
    return service.send(operation, build(operation, project_id=project_id, **arguments)).value
