"""Credits by lookback, against paths made with each lookback."""

import pandas as pd
import pytest
from support.dtype_names import dtype_names

from attrib_ds import Paths, attribute, compare_lookbacks, simulate
from attrib_ds.errors import InvalidRequest

NOON = pd.Timestamp("2025-03-10T12:00:00Z")
DAY = pd.Timedelta(days=1)


@pytest.fixture
def frames():
    """Two conversions: a 20 and b 5 days before the first, c 40 days before the second."""
    touched = pd.DataFrame(
        {
            "user_id": ["u", "u", "v"],
            "node_id": ["a", "b", "c"],
            "date": [NOON - 20 * DAY, NOON - 5 * DAY, NOON - 40 * DAY],
        }
    )
    converted = pd.DataFrame(
        {"event_id": ["e", "f"], "user_id": ["u", "v"], "date": NOON, "value": [10.0, 30.0]}
    )
    return touched, converted


def test_by_hand(frames):
    compared = compare_lookbacks(Paths.from_frames(*frames, lookback="1D"), ["90D", "7D", "30D"])
    assert compared["lookback_days"].tolist() == [7.0] * 4 + [30.0] * 4 + [90.0] * 4
    table = compared.fillna({"node_id": "nobody"}).pivot(index="node_id", columns="lookback_days")
    expected = {"a": [0, 0.5, 0.5], "b": [1, 0.5, 0.5], "c": [0, 0, 1], "nobody": [1, 1, 0]}
    assert table["conversions"].T.to_dict("list") == expected
    assert table["value"].T.to_dict("list") == {
        "a": [0, 5, 5],
        "b": [10, 5, 5],
        "c": [0, 0, 30],
        "nobody": [30, 30, 0],
    }
    assert table["share"].T.to_dict("list") == {
        node: [each / 2 for each in row] for node, row in expected.items()
    }
    assert table["share_shift"].T.to_dict("list") == {
        node: [(each - row[-1]) / 2 for each in row] for node, row in expected.items()
    }


@pytest.mark.slow
def test_credits_equal_those_of_paths_with_the_lookback():
    world = simulate("random", users=1_000, seed=2)
    frames = world.touchpoints, world.conversions
    models = {"late": "last_touch", "chain": "markov"}
    compared = compare_lookbacks(Paths.from_frames(*frames), ["3D", "10D"], models=models)
    assert compared["model"].drop_duplicates().tolist() == ["late", "chain"]
    keys = ["model", "node_id"]
    for days in (3, 10):
        expected = attribute(Paths.from_frames(*frames, lookback=f"{days}D"), models).set_index(keys)
        found = compared[compared["lookback_days"] == days].set_index(keys).reindex(expected.index)
        columns = ["conversions", "value", "share"]
        pd.testing.assert_frame_equal(found[columns], expected[columns], rtol=1e-9)
    assert (compared.loc[compared["lookback_days"] == 10, "share_shift"] == 0).all()


def test_conversions_without_a_value_have_none(frames):
    touched, converted = frames
    compared = compare_lookbacks(Paths.from_frames(touched, converted.drop(columns="value")), ["7D", "30D"])
    assert compared["value"].isna().all()
    assert compared["conversions"].notna().all()


def test_no_paths():
    empty = Paths.from_frames(
        pd.DataFrame(columns=["user_id", "node_id", "date"]),
        pd.DataFrame(columns=["event_id", "user_id", "date"]),
    )
    compared = compare_lookbacks(empty, ["7D", "30D"])
    assert compared.empty
    assert list(dtype_names(compared).values()) == [
        "str",
        "float64",
        "str",
        "str",
        "float64",
        "float64",
        "str",
        "float64",
        "float64",
    ]


@pytest.mark.parametrize(
    "lookbacks", ["7D", [], ["7D"], ["7D", "168h"], ["7D", "-1D"], ["7D", "soon"], 7, None]
)
def test_invalid_arguments_are_refused(frames, lookbacks):
    with pytest.raises(InvalidRequest, match="lookbacks"):
        compare_lookbacks(Paths.from_frames(*frames), lookbacks)


def test_aggregated_paths_are_refused():
    frame = pd.DataFrame({"path": ["a"], "n": [4]})
    with pytest.raises(InvalidRequest, match="aggregated paths have no dates"):
        compare_lookbacks(Paths.from_sequences(frame, path="path", conversions="n"), ["7D", "30D"])
