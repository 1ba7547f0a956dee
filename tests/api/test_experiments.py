"""Holdouts are created, grow, do not shrink and end; lists are drawn alike each time; the log of opportunities."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal

import pandas as pd
import polars as pl
import pytest
from support.dtype_names import dtype_names

import attrib_ds as at
from attrib_ds.contract import OPERATIONS, build
from attrib_ds.contract.interactions import OPPORTUNITY
from attrib_ds.errors import Conflict, HoldoutWarning, InvalidRequest, NotFound
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import running

NAMES = [f"h-{number:02}" for number in range(16)]
USERS = [f"u-{number}" for number in range(50)]


@pytest.fixture
def shop():
    with at.connect("my-shop", path=":memory:") as project:
        yield project


@pytest.fixture
def letter(shop):
    at.experiments.create_holdout(shop, "letter", node_id="spring", share=0.5)
    return shop


def test_holdouts_are_listed_and_have_an_event_type(shop):
    created = at.experiments.create_holdout(shop, "banner", node_id="spring", share=2 / 3, until="2026-06-30")
    assert created == "banner"
    at.experiments.create_holdout(shop, "popup", node_id="Spring sale: boots", share=0.5, since="2026-05-01")
    assert at.list_event_types(shop)["reference"].tolist() == ["holdout-opportunity"]
    listed = at.experiments.list_holdouts(shop)
    assert listed.fillna("").to_dict("list") == {
        "holdout": ["banner", "popup"],
        "node_id": ["spring", "Spring sale: boots"],
        "share": [0.666667, 0.5],
        "since": ["", "2026-05-01"],
        "until": ["2026-06-30", ""],
        "node_exists": [False, False],
    }
    # Again, without an end.
    at.experiments.create_holdout(shop, "banner", node_id="spring", share=2 / 3)
    assert at.experiments.list_holdouts(shop)["until"].isna().all()


def test_a_list_of_holdouts_has_the_same_dtypes_without_rows(shop):
    empty = at.experiments.list_holdouts(shop).dtypes
    at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1)
    assert at.experiments.list_holdouts(shop).dtypes.equals(empty)


def test_a_holdout_grows_only(shop):
    at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1)
    at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.2)
    with pytest.raises(Conflict, match="'banner' withholds node 'spring' from 0.2"):
        at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.1)
    with pytest.raises(Conflict, match="'spring'"):
        at.experiments.create_holdout(shop, "banner", node_id="autumn", share=0.2)
    assert at.experiments.list_holdouts(shop)["share"].tolist() == [0.2]


def test_a_holdout_ends(letter):
    at.experiments.create_holdout(letter, "banner", node_id="spring", share=0.1)
    assert at.experiments.delete_holdout(letter, "letter") == 1
    assert at.experiments.list_holdouts(letter)["holdout"].tolist() == ["banner"]
    with pytest.raises(NotFound, match="there is no holdout 'letter'"):
        at.experiments.delete_holdout(letter, "letter")


def test_days_and_shares_of_any_type_are_those_of_their_text(shop):
    at.experiments.create_holdout(
        shop, "banner", node_id="spring", share=Decimal("0.1"), since=date(2026, 5, 1), until="2026-05-01"
    )
    (listed,) = at.experiments.list_holdouts(shop).to_dict("records")
    assert (listed["share"], listed["since"], listed["until"]) == (0.1, "2026-05-01", "2026-05-01")


@pytest.fixture
def shop_with_nodes(shop):
    names = {"spring": "Spring sale", "summer": "Summer sale"}
    at.load(shop, nodes=pd.DataFrame({"_id": names.keys(), "type": "campaign", "name": names.values()}))
    return shop


def test_a_node_that_exists_is_listed_as_such(shop_with_nodes):
    at.experiments.create_holdout(shop_with_nodes, "banner", node_id="spring", share=0.1)
    with pytest.warns(HoldoutWarning):
        at.experiments.create_holdout(shop_with_nodes, "popup", node_id="autumn", share=0.1)
    assert at.experiments.list_holdouts(shop_with_nodes)["node_exists"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("node_id", "hint"),
    [
        ("sprng", r" \(did you mean 'spring'\?\)"),
        # Ids are compared, not names.
        ("summer sale", r" \(did you mean 'summer', the id of 'Summer sale'\?\)"),
        ("newsletter", ""),
    ],
)
def test_a_node_that_does_not_exist_yet_causes_a_warning(shop_with_nodes, node_id, hint):
    with pytest.warns(HoldoutWarning, match=f"^node_id: there is no node {node_id!r} yet{hint}; ") as caught:
        at.experiments.create_holdout(shop_with_nodes, "banner", node_id=node_id, share=0.1)
    assert [each.filename for each in caught if each.category is HoldoutWarning] == [__file__]
    assert at.experiments.list_holdouts(shop_with_nodes)["node_id"].tolist() == [node_id]


@pytest.mark.large
@pytest.mark.slow
def test_clients_that_cannot_list_nodes_are_warned_too(tmp_path):
    with at.connect("my-shop", path=tmp_path / "my-shop.duckdb") as shop:
        at.load(shop, nodes=pd.DataFrame({"_id": ["spring"], "type": ["campaign"], "name": ["Spring"]}))
    create_key(tmp_path, tmp_path / "key.json", scopes=["admin"])
    with (
        running(tmp_path) as url,
        at.connect("my-shop", url=url, key=tmp_path / "key.json") as shop,
        pytest.warns(HoldoutWarning, match="^node_id: there is no node 'sprng' yet; "),
    ):
        at.experiments.create_holdout(shop, "banner", node_id="sprng", share=0.1)


def check_that_no_change_is_lost(first, second):
    """Create and delete holdouts of two clients at once."""
    clients = [(first, NAMES[::2]), (second, NAMES[1::2])]

    def create(client, names):
        for name in names:
            at.experiments.create_holdout(client, name, node_id="spring", share=0.1)

    def delete(client, names):
        return [at.experiments.delete_holdout(client, name) for name in names[1:]]

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(create, *zip(*clients, strict=True)))
        assert at.experiments.list_holdouts(first)["holdout"].tolist() == NAMES
        list(threads.map(delete, *zip(*clients, strict=True)))
    assert at.experiments.list_holdouts(first)["holdout"].tolist() == NAMES[:2]


@pytest.mark.slow
def test_threads_lose_no_holdout(shop):
    check_that_no_change_is_lost(shop, shop)


@pytest.mark.large
@pytest.mark.slow
def test_clients_of_a_server_lose_no_holdout(tmp_path):
    at.connect("my-shop", path=tmp_path / "my-shop.duckdb").close()
    create_key(tmp_path, tmp_path / "key.json")
    with running(tmp_path) as url:
        first, second = (at.connect("my-shop", url=url, key=tmp_path / "key.json") for _ in range(2))
        with first, second:
            check_that_no_change_is_lost(first, second)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"share": 0}, "share"),
        ({"share": 1}, "share"),
        ({"share": 1e-9}, "share"),
        ({"share": 1 - 1e-9}, "share"),
        ({"share": float("nan")}, "share"),
        ({"share": "0.1"}, "share"),
        ({"share": True}, "share"),
        ({"share": Decimal("nan")}, "share"),
        ({"share": 10**400}, "share"),
        ({"since": "2026-05-01T12:00"}, "since"),
        ({"since": "2026-02-30"}, "since"),
        ({"since": "0001-01-01"}, "since"),
        ({"since": "2026-05-02", "until": "2026-05-01"}, "until"),
        ({"node_id": ""}, "node_id"),
        ({"node_id": "a\0b"}, "node_id"),
        ({"node_id": "a" * 513}, "node_id"),
        ({"holdout": "Banner"}, "holdout"),
        ({"holdout": "a:b"}, "holdout"),
        ({"holdout": "a\n"}, "holdout"),
        ({"holdout": "a" * 65}, "holdout"),
        ({"holdout": ""}, "holdout"),
    ],
    ids=ascii,
)
def test_invalid_holdouts_are_refused(wrong, field):
    arguments = {"holdout": "banner", "node_id": "spring", "share": 0.1, **wrong}
    for days in ("since", "until"):
        arguments[{"since": "firstDay", "until": "lastDay"}[days]] = arguments.pop(days, None)
    with pytest.raises(InvalidRequest, match=f"^{field}: ") as caught:
        build(OPERATIONS["create_holdout"], project_id="my-shop", **arguments)
    assert caught.value.field == field


def test_a_list_is_drawn_alike_each_time(letter):
    first = at.experiments.assign(letter, USERS, holdout="letter")
    assert dtype_names(first) == {"user_id": "str", "node_id": "str", "withheld": "bool"}
    assert first["user_id"].tolist() == USERS
    backwards = at.experiments.assign(letter, reversed(USERS), holdout="letter")
    assert backwards["withheld"].tolist() == first["withheld"].tolist()[::-1]
    # The kind of the ids has no part in the draw.
    for ids in (pd.Series(USERS), pl.Series(USERS), set(USERS)):
        again = at.experiments.assign(letter, ids, holdout="letter", column="tracker_id")
        drawn = dict(zip(again["tracker_id"], again["withheld"], strict=True))
        assert [drawn[id] for id in USERS] == first["withheld"].tolist()
    assert at.experiments.assign(letter, [], holdout="letter").dtypes.equals(first.dtypes)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_frame_keeps_its_rows_and_columns(letter, library):
    audience = library({"user_id": USERS, "email": [f"{id}@shop.example" for id in USERS]})
    drawn = at.experiments.assign(letter, audience, holdout="letter")
    assert drawn.columns.tolist() == ["user_id", "email", "node_id", "withheld"]
    assert drawn["email"].tolist() == list(audience["email"])
    expected = at.experiments.assign(letter, USERS, holdout="letter")
    assert drawn["withheld"].tolist() == expected["withheld"].tolist()
    assert list(audience.columns) == ["user_id", "email"]


def test_rows_of_a_frame_keep_their_index(letter):
    audience = pd.DataFrame({"_id": USERS}).sample(frac=1, random_state=1)
    drawn = at.experiments.assign(letter, audience, holdout="letter", column="_id")
    expected = at.experiments.assign(letter, audience["_id"], holdout="letter")
    assert drawn.index.equals(audience.index)
    assert drawn["withheld"].tolist() == expected["withheld"].tolist()
    assert drawn["node_id"].eq("spring").all()


@pytest.mark.parametrize("wrong", [7, None, float("nan"), ""], ids=str)
def test_ids_are_text(letter, wrong):
    with pytest.raises(InvalidRequest, match="^ids: "):
        at.experiments.assign(letter, ["u-1", wrong], holdout="letter")
    with pytest.raises(InvalidRequest, match="^ids: "):
        at.experiments.assign(letter, pd.DataFrame({"user_id": ["u-1", wrong]}), holdout="letter")


@pytest.mark.parametrize("wrong", ["anna", 7, None])
def test_ids_are_a_frame_or_a_list(letter, wrong):
    with pytest.raises(InvalidRequest, match="^ids: .* a DataFrame or a list"):
        at.experiments.assign(letter, wrong, holdout="letter")


def test_a_missing_column_is_named(letter):
    with pytest.raises(InvalidRequest, match="^ids: no column 'user_id'"):
        at.experiments.assign(letter, pd.DataFrame({"_id": USERS}), holdout="letter")


def test_an_unknown_holdout_is_named(letter):
    with pytest.raises(NotFound, match=r"there is no holdout 'leter' \(did you mean 'letter'\?\)"):
        at.experiments.assign(letter, ["u"], holdout="leter")


@pytest.fixture
def log_shop():
    with at.connect("my-shop", path=":memory:") as project:
        at.experiments.create_holdout(project, "banner", node_id="spring", share=0.5)
        yield project


def report(log_shop, number, tracker, *, withheld, day, holdout="banner", node="spring"):
    log_shop.send(
        "create_event_sync",
        event_type=OPPORTUNITY,
        nonce=f"n-{number}",
        tracker_id=tracker,
        event_date=f"2026-05-{day:02}T12:00:00Z",
        data={"holdout": holdout, "node": node, "withheld": withheld},
    )


def test_users_count_by_their_first_opportunity(log_shop):
    # Anna's second opportunity was withheld after the share had grown; Ben's alone is of another holdout.
    report(log_shop, 1, "anna", withheld=False, day=1)
    report(log_shop, 2, "anna", withheld=True, day=3)
    report(log_shop, 3, "carl", withheld=True, day=2)
    report(log_shop, 4, "ben", withheld=True, day=2, holdout="popup")
    log = at.experiments.list_opportunities(log_shop, holdout="banner")
    assert log["date"].dt.day.tolist() == [1, 2, 3]
    assert log["withheld"].tolist() == [False, True, False]
    assert log["user_id"].nunique() == 2
    later = at.experiments.list_opportunities(log_shop, holdout="banner", since="2026-05-02")
    assert later["withheld"].tolist() == [True, True]


def test_opportunities_follow_users_who_are_merged(log_shop):
    report(log_shop, 1, "phone", withheld=True, day=1)
    report(log_shop, 2, "laptop", withheld=False, day=2)
    phone, laptop = at.experiments.list_opportunities(log_shop, holdout="banner")["user_id"]
    at.admin.merge_users(log_shop, phone, laptop)
    log = at.experiments.list_opportunities(log_shop, holdout="banner")
    assert log["user_id"].tolist() == [phone, phone]
    assert log["withheld"].tolist() == [True, True]


def test_a_name_that_was_used_again_for_another_node_is_kept_apart(log_shop):
    report(log_shop, 1, "anna", withheld=False, day=1)
    report(log_shop, 2, "anna", withheld=True, day=2, node="autumn")
    log = at.experiments.list_opportunities(log_shop, holdout="banner")
    assert log[["node_id", "withheld"]].values.tolist() == [["spring", False], ["autumn", True]]
