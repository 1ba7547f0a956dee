from __future__ import annotations

from collections.abc import Callable

import pytest

from attrib_ds.contract import Request

Ask = Callable[..., Request]
Refusal = Callable[..., str]


@pytest.mark.parametrize(
    "accepted", ["channel", "integration", "campaign", "adset", "ad", "keyword", "referrer"]
)
def test_types_accepted(receive: Ask, accepted: str) -> None:  # G-046
    assert receive("list_nodes", query={"type": accepted, "limit": "5"}).type == accepted


def test_types_refused(bad_request: Refusal) -> None:
    assert "(did you mean 'campaign'?)" in bad_request("list_nodes", query={"type": "campagne"})


@pytest.mark.parametrize("accepted", ["123", "ads:7/9", "n" * 128])
def test_ids_are_free_texts(ask: Ask, accepted: str) -> None:  # G-217
    assert ask("get_node", id=accepted).id == accepted


@pytest.mark.parametrize("accepted", ["interactions", "hits", "events", "nodes", "spend"])
def test_records_to_load(ask: Ask, accepted: str) -> None:
    source = object()
    request = ask("load_records", project_id="shop", resource=accepted, source=source)
    assert (request.resource, request.source) == (accepted, source)


def test_records_not_to_load(refusal: Refusal) -> None:
    assert refusal("load_records", project_id="shop", resource="users", source=[]).startswith("resource: ")
