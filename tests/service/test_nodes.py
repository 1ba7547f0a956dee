"""Reading the tree of nodes."""

import pytest
from support.service_records import send, table

from attrib_ds import schema
from attrib_ds.errors import NotFound
from attrib_ds.service import Service


@pytest.fixture(scope="module")
def service():
    opened = Service.open("shop", ":memory:")
    nodes = [
        ("a leaf", "middle", "ad", "Zebra"),
        ("middle", "root", "campaign", "50%_off"),
        ("root", None, "channel", "Ads"),
        ("x", None, "channel", "Brand ads"),
    ]
    records = [{"_id": i, "parentId": p, "type": t, "name": n, "channel": "Paid"} for i, p, t, n in nodes]
    send(opened, "load_records", resource="nodes", source=table(*records))
    yield opened
    opened.close()


def names(answer):
    return set(answer.read()["_id"].to_pylist())


def test_all_nodes_in_a_fixed_order(service):
    answer = send(service, "list_nodes")
    assert answer.read().schema == schema.NODE
    assert names(answer) == {"a leaf", "middle", "root", "x"}
    assert (answer.total, answer.offset, answer.limit) == (4, 0, None)
    assert answer.read().equals(send(service, "list_nodes").read())


def test_pages_of_nodes_are_disjoint_and_complete(service):
    pages = [send(service, "list_nodes", limit=3, offset=start) for start in (0, 3)]
    assert [page.read().num_rows for page in pages] == [3, 1]
    assert all(page.total == 4 for page in pages)
    assert names(pages[0]) | names(pages[1]) == {"a leaf", "middle", "root", "x"}
    nothing = send(service, "list_nodes", limit=0)
    assert (nothing.read().num_rows, nothing.total) == (0, 4)
    assert nothing.read().schema == schema.NODE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"type": "channel"}, {"root", "x"}),
        ({"search": "ADS"}, {"root", "x"}),
        ({"search": "brand"}, {"x"}),
        # Literal: neither of these stands for other characters.
        ({"search": "%_"}, {"middle"}),
        ({"search": "leaf", "type": "ad"}, {"a leaf"}),
        ({"search": "nothing"}, set()),
    ],
)
def test_nodes_by_type_and_text(service, arguments, expected):
    answer = send(service, "list_nodes", **arguments)
    assert (names(answer), answer.total) == (expected, len(expected))


def test_one_node(service):
    answer = send(service, "get_node", id="a leaf")
    assert answer.read().schema == schema.NODE
    (record,) = answer.read().to_pylist()
    assert record["path"] == ["root", "middle"]
    assert (record["name"], record["active"], record["projectId"]) == ("Zebra", True, "shop")
    with pytest.raises(NotFound, match="no node 'nowhere'"):
        send(service, "get_node", id="nowhere")
