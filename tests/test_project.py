"""Projects: where they live, how they open and close, and what refuses to."""

import json
from inspect import isfunction, signature

import duckdb
import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import (
    Paths,
    attribute,
    connect,
    conversion_paths,
    errors,
    list_event_types,
    list_nodes,
    load,
    sample_project,
)
from attrib_ds.errors import InvalidRequest
from attrib_ds.sample import files

NODES = pd.DataFrame({"_id": ["tv"], "name": ["TV"], "type": ["channel"]})


def test_an_embedded_project_lives_in_its_home(own_home):
    with connect("my-shop") as shop:
        assert repr(shop) == f"<Project 'my-shop' at {own_home / 'my-shop.duckdb'}>"
        load(shop, nodes=NODES)
    with connect("my-shop") as again:
        assert list_nodes(again)["_id"].tolist() == ["tv"]


def test_a_path_of_ones_own(tmp_path):
    with connect("my-shop", path=tmp_path / "deep" / "shop.duckdb") as shop:
        load(shop, nodes=NODES)
    with connect("my-shop", path=tmp_path / "deep" / "shop.duckdb", read_only=True) as reader:
        assert list_nodes(reader)["_id"].tolist() == ["tv"]
        with pytest.raises(errors.NotSupported, match="read_only"):
            load(reader, nodes=NODES)
    with pytest.raises(errors.InvalidRequest, match="holds the project 'my-shop', not 'other-shop'"):
        connect("other-shop", path=tmp_path / "deep" / "shop.duckdb")


@pytest.mark.parametrize("project_id", ["con", "aux", "nul", "prn", "com1", "lpt9"])
def test_a_new_project_is_not_called_like_a_device(own_home, project_id):
    """On Windows, no file can have the name."""
    with pytest.raises(
        errors.InvalidRequest, match=f"project_id: '{project_id}' is not allowed for a new project"
    ):
        connect(project_id)
    assert not own_home.exists()


def test_a_project_called_like_a_device_opens(own_home):
    connect("console").close()
    with duckdb.connect(own_home / "console.duckdb") as connection:
        connection.execute("UPDATE meta SET project_id = 'con'")
    (own_home / "console.duckdb").rename(own_home / "con.duckdb")
    with connect("con") as shop:
        assert shop.project_id == "con"


@pytest.mark.parametrize("project_id", ["shop_1", ""])
def test_project_ids_that_are_not_well_formed_are_refused(project_id):
    with pytest.raises(errors.InvalidRequest, match="project_id"):
        connect(project_id, path=":memory:")


def test_a_remote_address_in_the_environment_is_not_ignored(monkeypatch):
    monkeypatch.setenv("ATTRIB_DS_URL", "https://service.example")
    with connect("my-shop") as shop:
        assert repr(shop) == "<Project 'my-shop' at https://service.example/api/v1>"
    with connect("my-shop", path=":memory:") as shop:
        assert repr(shop) == "<Project 'my-shop' at :memory:>"


def test_a_closed_project_says_so():
    shop = connect("my-shop", path=":memory:")
    shop.close()
    shop.close()
    with pytest.raises(errors.Unavailable):
        list_nodes(shop)


@pytest.mark.large
@pytest.mark.slow
def test_paths_keep_their_project_open():
    paths = conversion_paths(sample_project(), event_type="order")
    assert attribute(paths, "linear")["conversions"].sum() == pytest.approx(1446)


@pytest.mark.large
@pytest.mark.slow
def test_the_sample_opens_again_as_it_is(tmp_path):
    with sample_project(tmp_path / "sample.duckdb") as first:
        nodes = list_nodes(first)
    with sample_project(tmp_path / "sample.duckdb") as again:
        types = list_event_types(again).set_index("reference")
        assert sorted(types.index) == ["lead", "order"]
        events = pd.read_parquet(files()["events"])
        for reference, of_type in events.groupby("eventType"):
            fields = json.loads(types["fields"][reference])
            filled = of_type.columns[of_type.notna().any()]
            held = {name.split(".")[1] for name in filled if "." in name}
            assert {field["storageKey"] for field in fields} == held
        pd.testing.assert_frame_equal(list_nodes(again), nodes)


def test_loading_tells_counts_and_rejected_rows():
    nodes = pd.DataFrame(
        {"_id": ["tv", "tv", "ad"], "name": ["TV", "TV", "Ad"], "type": ["channel", "channel", "advert"]}
    )
    with connect("my-shop", path=":memory:") as shop:
        report = load(shop, nodes=nodes)
        assert report.counts == {"nodes": 1}
        assert report.rejected[["table", "row", "id"]].to_numpy().tolist() == [
            ["nodes", 1, "tv"],
            ["nodes", 2, "ad"],
        ]
        assert "advert" in report.rejected["reason"].iloc[1]
        assert repr(report) == "<Loaded 1 node; 2 rows rejected>"
        with pytest.raises(errors.InvalidRequest, match="nothing to load"):
            load(shop)
        with pytest.raises(errors.InvalidRequest, match="nam'.*did you mean 'name'"):
            load(shop, nodes=NODES.rename(columns={"name": "nam"}))


def test_paths_from_frames_need_no_project():
    touchpoints = pd.DataFrame({"user_id": ["u"], "node_id": ["tv"], "date": ["2025-01-01T00:00:00Z"]})
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": ["2025-01-02T00:00:00Z"]})
    assert attribute(Paths.from_frames(touchpoints, conversions), "linear")["node_id"].tolist() == ["tv"]


def test_every_function_that_takes_a_project_refuses_its_id():
    """One error, which says what to pass."""
    found = 0
    for module in (at, at.admin, at.experiments, at.forms, at.hits):
        for name in module.__all__:
            function = getattr(module, name)
            names = list(signature(function).parameters) if isfunction(function) else []
            if names[:1] == ["project"]:
                found += 1
                others = [
                    each for each in signature(function).parameters.values() if each.default is each.empty
                ]
                missing = {each.name: None for each in others[1:] if each.kind is each.KEYWORD_ONLY}
                places = [None for each in others[1:] if each.kind is each.POSITIONAL_OR_KEYWORD]
                with pytest.raises(
                    InvalidRequest, match=r"^project: the id 'shop' .*attrib_ds\.connect\('shop'\)"
                ):
                    function("shop", *places, **missing)
    assert found > 60
