"""Holdouts are created, grow, do not shrink and end; lists are drawn alike each time."""

import pandas as pd
import polars as pl
import pytest
from support.dtype_names import dtype_names

import attrib_ds as at
from attrib_ds.errors import Conflict, InvalidRequest, NotFound

USERS = [f"u-{number}" for number in range(50)]


@pytest.fixture
def shop():
    with at.connect("my-shop", path=":memory:") as project:
        yield project


@pytest.fixture
def letter(shop):
    at.experiments.create_holdout(shop, "letter", node_id="spring", share=0.5)
    return shop


def test_a_holdout_is_a_setting_and_has_an_event_type(shop):
    created = at.experiments.create_holdout(shop, "banner", node_id="spring", share=2 / 3, until="2026-06-30")
    assert created == "banner"
    at.experiments.create_holdout(shop, "popup", node_id="Spring sale: boots", share=0.5, since="2026-05-01")
    assert list(at.admin.get_settings(shop)["holdouts"]) == [
        "banner:0.666667:/2026-06-30:spring",
        "popup:0.5:2026-05-01/:Spring sale: boots",
    ]
    assert at.list_event_types(shop)["reference"].tolist() == ["holdout-opportunity"]
    listed = at.experiments.list_holdouts(shop)
    assert listed.fillna("").to_dict("list") == {
        "holdout": ["banner", "popup"],
        "node_id": ["spring", "Spring sale: boots"],
        "share": [0.666667, 0.5],
        "since": ["", "2026-05-01"],
        "until": ["2026-06-30", ""],
    }
    # Again, without an end.
    at.experiments.create_holdout(shop, "banner", node_id="spring", share=2 / 3)
    assert at.experiments.list_holdouts(shop)["until"].isna().all()


def test_a_holdout_of_the_settings_alone_has_an_event_type(shop):
    at.admin.update_settings(shop, holdouts=["banner:0.1:/:spring"])
    assert at.list_event_types(shop)["reference"].tolist() == ["holdout-opportunity"]
    at.admin.update_settings(shop, holdouts=[])
    assert at.experiments.list_holdouts(shop).empty


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


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"share": 0}, "share"),
        ({"share": 1}, "share"),
        ({"share": 1e-9}, "share"),
        ({"share": 1 - 1e-9}, "share"),
        ({"share": float("nan")}, "share"),
        ({"share": "0.1"}, "share"),
        ({"since": "2026-05-01T12:00"}, "since"),
        ({"since": "2026-05-02", "until": "2026-05-01"}, "until"),
        ({"node_id": ""}, "holdouts/0"),
        ({"node_id": "a\0b"}, "holdouts/0"),
        ({"holdout": "Banner"}, "holdout"),
        ({"holdout": "a:b"}, "holdout"),
        ({"holdout": "a\n"}, "holdout"),
        ({"holdout": "a" * 65}, "holdout"),
        ({"holdout": ""}, "holdout"),
    ],
    ids=ascii,
)
def test_invalid_holdouts_change_nothing(shop, wrong, field):
    with pytest.raises(InvalidRequest, match=f"^{field}: ") as caught:
        at.experiments.create_holdout(
            shop, **{"holdout": "banner", "node_id": "spring", "share": 0.1, **wrong}
        )
    assert caught.value.field == field
    assert at.experiments.list_holdouts(shop).empty


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
