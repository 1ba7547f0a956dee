"""Ways into the contract that its tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from attrib_ds.contract import OPERATIONS, Request, build, from_wire
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

#: What the path of any operation may ask for.
_PATH = {
    "projectId": "shop",
    "id": "0123456789abcdef01234567",
    "firstHitId": "0190163d-8694-739b-aea5-966c26f8ad91",
    "storageKey": "converted",
    "vendorId": "my-ads",
    "parentCampaignId": "c1",
    "outlayId": "o1",
}


@pytest.fixture(scope="session")
def ask() -> Callable[..., Request]:
    """Build a request by the operation's name, with a path already given."""

    def build_request(name: str, /, **arguments: Any) -> Request:
        operation = OPERATIONS[name]
        path = {key: value for key, value in _PATH.items() if operation.location(key) == "path"}
        return build(operation, **(path | arguments))

    return build_request


@pytest.fixture(scope="session")
def refusal(ask: Callable[..., Request]) -> Callable[..., str]:
    """Return the message with which a request is refused."""

    def message(name: str, /, **arguments: Any) -> str:
        with pytest.raises(InvalidRequest) as caught:
            ask(name, **arguments)
        return caught.value.message

    return message


@pytest.fixture(scope="session")
def receive() -> Callable[..., Request]:
    """Read a request as it comes over HTTP, with a path already given."""

    def read(
        name: str, /, *, body: object = None, query: dict[str, str] | None = None, **path: str
    ) -> Request:
        return from_wire(OPERATIONS[name], path=_PATH | path, query=query, body=body)

    return read


@pytest.fixture(scope="session")
def bad_request(receive: Callable[..., Request]) -> Callable[..., str]:
    """Return the message with which a request over HTTP is refused."""

    def message(name: str, /, **parts: Any) -> str:
        with pytest.raises(InvalidRequest) as caught:
            receive(name, **parts)
        return caught.value.message

    return message
