"""Fixtures of the service over HTTP: one real server on loopback for all tests that only read."""

from contextlib import closing

import pyarrow as pa
import pytest
from support.http_caller import Caller, token_of
from support.service_records import hex_id, table, uuid, visit

from attrib_ds.contract import OPERATIONS, build
from attrib_ds.service import Service
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

MANY = 100_000


def load(project_id, home, **resources):
    operation = OPERATIONS["load_records"]
    with closing(Service.open(project_id, home / f"{project_id}.duckdb")) as service:
        for resource, source in resources.items():
            request = build(operation, project_id=project_id, resource=resource, source=source)
            answer = service.send(operation, request)
            assert answer.read().num_rows == 0, answer.read().to_pylist()


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Two projects with the same ids."""
    folder = tmp_path_factory.mktemp("home")
    first = uuid(1)
    visits = [
        visit(1, startDate="2025-01-01T10:00:00.123456Z", firstHitId=first, hitCount=2, geo__city="Oslo",
              userData='{"vendorUserId":"u-1"}', type="session"),
        visit(2, startDate="2025-01-02T10:00:00Z", type="offline", nodeId="shop, \"best\" of Ærø/💡"),
        visit(3, startDate="2025-01-03T10:00:00Z", type="session", isBot=True),
    ]  # fmt: skip
    hits = [
        {"id": first, "sessionId": hex_id(1), "serverDate": "2025-01-01T10:00:00Z", "hitType": "pageview"},
        {"id": uuid(2), "sessionId": hex_id(1), "serverDate": "2025-01-01T10:01:00Z", "hitType": "pageview"},
    ]
    nodes = [
        {"_id": "ads", "type": "campaign", "name": "Ads"},
        {"_id": 'shop, "best" of Ærø/💡', "type": "channel", "name": "Shop"},
    ]
    load("shop", folder, nodes=table(*nodes), interactions=table(*visits), hits=table(*hits))
    load("other-shop", folder, interactions=table(visit(1, nodeId="secret-node")))
    return folder


@pytest.fixture(scope="session")
def big_shop(home):
    """A project with many interactions, which the server opens at the first request for it."""
    numbers = range(MANY)
    many = pa.table(
        {
            "_id": [hex_id(number) for number in numbers],
            "userId": [hex_id(number % 1_000) for number in numbers],
            "nodeId": ["ads"] * MANY,
            "startDate": [f"2025-01-{1 + number % 28:02}T00:00:00Z" for number in numbers],
        }
    )
    load("big-shop", home, interactions=many)


@pytest.fixture(scope="session")
def server(home):
    with running(home, options=ServerOptions(rate_limits=None)) as url:
        yield url


@pytest.fixture(scope="session")
def key(home, server):
    """The key of an account with full access to two of the projects, and one that does not exist."""
    return create_key(home, home / "key.json", projects=["shop", "big-shop", "gone-shop"])


@pytest.fixture(scope="session")
def admin_key(home, server):
    return create_key(home, home / "admin.json", projects=None)


@pytest.fixture(scope="session")
def anyone(server):
    """Call without a token."""
    return Caller(server)


@pytest.fixture(scope="session")
def call(server, key):
    """Call with full access to the projects "shop", "big-shop" and "gone-shop"."""
    return Caller(server, token_of(server, key))


@pytest.fixture(scope="session")
def admin(server, admin_key):
    """Call with full access to all projects."""
    return Caller(server, token_of(server, admin_key))
