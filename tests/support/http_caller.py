"""Calls a server over plain HTTP, so that nothing is set right on the way."""

import http.client
import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from support.signing import header_of, payload_of, signed

from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.keys import KeyFile, Secret

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
FORM = "application/x-www-form-urlencoded"
#: Long enough for a machine under load; a test that waits so long has failed.
TIMEOUT = 120


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    def json(self):
        return json.loads(self.content)


@dataclass(frozen=True)
class Caller:
    url: str
    token: str | None = field(default=None, repr=False)
    source: str | None = None

    def __call__(self, method, path, body=None, **headers) -> Reply:
        source = (self.source, 0) if self.source else None
        connection = http.client.HTTPConnection(
            urlsplit(self.url).netloc, timeout=TIMEOUT, source_address=source
        )
        if isinstance(body, dict | list):
            body = json.dumps(body)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            fields.setdefault("Authorization", f"Bearer {self.token}")
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def operation(self, name, body=None, *, project="shop", query="", **headers) -> Reply:
        operation = OPERATIONS[name]
        return self(operation.method, path_of(operation, project) + query, body, **headers)


def path_of(operation, project="shop") -> str:
    """Return a path of an operation whose values are all well-formed."""
    values = {"projectId": project, "vendorId": "ads", "storageKey": "won"}
    values |= dict.fromkeys(("campaignId", "parentCampaignId", "outlayId"), "1")
    values |= {"firstHitId": "0" * 24, "id": "0" * 24, "keyId": "0" * 40, "holdout": "banner"}
    values["portionId"] = "00000000-0000-4000-8000-000000000001"
    return BASES[operation.base] + operation.path.format_map(values)


def read_key(path) -> KeyFile:
    members = json.loads(path.read_text())
    names = ("clientId", "serviceAccountEmail", "privateKeyId")
    return KeyFile(*(members[name] for name in names), Secret(members["privateKey"]))


def ask_token(caller, key, **claims) -> Reply:
    assertion = signed(
        header_of(key),
        payload_of(key, time.time(), **{"aud": f"{caller.url}/auth/oidc/token", **claims}),
        key.privateKey,
    )
    return exchange(caller, client_id=key.clientId, assertion=assertion)


def exchange(caller, **parameters) -> Reply:
    form = urlencode({"grant_type": GRANT, **parameters})
    return caller("POST", "/auth/oidc/token", form, Content_Type=FORM)


def token_of(url, key, **claims) -> str:
    reply = ask_token(Caller(url), key, **claims)
    assert reply.status == 200, reply.content
    return reply.json()["access_token"]


@contextmanager
def answering(call, body, **headers):
    """Send a search of the project "big-shop" and give back its answer, of which only the headers are read."""
    connection = http.client.HTTPConnection(urlsplit(call.url).netloc, timeout=TIMEOUT)
    fields = {"Authorization": f"Bearer {call.token}", **headers}
    connection.request("POST", "/api/v1/projects/big-shop/interactions/search", json.dumps(body), fields)
    try:
        yield connection.getresponse()
    finally:
        connection.close()
