"""Checking and backing up a project from Python."""

from __future__ import annotations

import pytest
from support.dtype_names import dtype_names

from attrib_ds import connect, create_event_type, list_event_types
from attrib_ds.api.admin import back_up, check
from attrib_ds.errors import InvalidRequest


def test_a_sound_project_has_no_findings_and_all_columns():
    with connect("my-shop", path=":memory:") as shop:
        found = check(shop)
    assert dtype_names(found) == {
        "check": "str",
        "problem": "str",
        "records": "Int64",
        "examples": "object",
    }
    assert len(found) == 0


def test_findings_tell_the_check_the_problem_and_examples():
    with connect("my-shop", path=":memory:") as shop:
        store = shop.transport._store
        store.write(lambda connection: connection.execute("INSERT INTO users VALUES ('x', now())"))
        (row,) = check(shop).to_dict("records")
    assert (row["check"], row["records"], list(row["examples"])) == ("users", 1, ["x"])


def test_a_backup_is_a_project(tmp_path):
    with connect("my-shop", path=":memory:") as shop:
        create_event_type(shop, "order", name="Order")
        copy = back_up(shop, str(tmp_path / "copy.duckdb"))
        create_event_type(shop, "lead", name="Lead")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["copy.duckdb"]
    with connect("my-shop", path=copy) as shop:
        assert list_event_types(shop)["reference"].tolist() == ["order"]


@pytest.mark.slow
def test_a_backup_never_takes_the_place_of_a_file(tmp_path):
    file = tmp_path / "shop.duckdb"
    with connect("my-shop", path=file) as shop:
        with pytest.raises(InvalidRequest, match="exists already"):
            back_up(shop, file)
        with pytest.raises(InvalidRequest, match="the folder .* does not exist"):
            back_up(shop, tmp_path / "none" / "copy.duckdb")
        assert check(shop).empty
