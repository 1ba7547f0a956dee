"""Effects by period and segment: sums, labels, and intervals that contain known effects."""

from dataclasses import replace

import pandas as pd
import pytest
from support.hazard_world import NODES, hazard_world

from attrib_ds import Paths, incremental_effects
from attrib_ds.attribution.experiments.cells import Cells
from attrib_ds.attribution.incremental.discrete_hazard import HazardSample
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.models.path_models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

BY = ["segment", "month"]


@pytest.fixture(scope="module")
def world():
    # Search works better from February on, and in the north.
    return hazard_world(5_000, seed=1, late=1.5, north=1.5)


def paths_of(world, **options):
    return Paths.from_frames(world.touchpoints, world.conversions, users=world.users, **options)


@pytest.fixture(scope="module")
def paths(world):
    return paths_of(world)


@pytest.fixture(scope="module")
def effects(paths):
    return incremental_effects(paths, controls=["direct"], by=BY)


@pytest.mark.slow
def test_each_cell_has_its_rows(effects):
    assert list(effects.columns[:6]) == ["model", *BY, "start", "node_id", "node_name"]
    cells = effects[[*BY, "start"]].drop_duplicates().to_numpy().tolist()
    months = {name: pd.Timestamp(f"{name}-01", tz="UTC") for name in ("2025-01", "2025-02")}
    assert cells == [[part, month, months[month]] for part in ("north", "south") for month in months]
    for _, rows in effects.groupby(BY):
        assert set(rows["node_id"].dropna()) == set(NODES)
        assert pd.isna(rows["node_id"].iloc[-1])
        assert rows["caused"].iloc[:-1].is_monotonic_decreasing
    assert effects["verdict"].nunique() == 1
    assert "Each cell of segment, month has effects of its own" in effects.attrs["identified"]


@pytest.mark.slow
def test_cells_add_up_to_the_whole(world, paths, effects):
    whole = incremental_effects(paths, controls=["direct"]).set_index("node_id")
    summed = effects.groupby("node_id", dropna=False)[["credited", "caused"]].sum()
    assert summed["credited"].to_dict() == pytest.approx(whole["credited"].to_dict(), nan_ok=True)
    assert effects.groupby(BY)["caused"].sum().to_dict() == pytest.approx(
        world.caused.groupby(BY).size().to_dict()
    )
    for node in NODES:
        assert whole.loc[node, "low"] < summed.loc[node, "caused"] < whole.loc[node, "high"]


@pytest.mark.slow
def test_a_constant_segment_is_no_benchmark_in_itself(effects):
    assert set(effects["benchmark"].dropna()) == {"direct"}


@pytest.mark.slow
def test_effects_of_a_segment_are_those_of_its_users_alone(world, paths):
    model = DiscreteHazard(comparisons=1_000)  # All periods, so that nothing is drawn but times of day.
    found = incremental_effects(paths, model, by="segment").set_index(["segment", "node_id"])
    users = world.users[world.users["segment"] == "north"]
    parts = [rows[rows["user_id"].isin(users["user_id"])] for rows in (world.touchpoints, world.conversions)]
    alone = incremental_effects(Paths.from_frames(*parts, users=users), model).set_index("node_id")
    for node in NODES:
        row, expected = found.loc[("north", node)], alone.loc[node]
        width = expected["high"] - expected["low"]
        assert row["caused"] == pytest.approx(expected["caused"], abs=0.1 * width)
        assert row["high"] - row["low"] == pytest.approx(width, rel=0.4)
        assert row["robustness_value"] == pytest.approx(expected["robustness_value"], abs=0.002)


@pytest.mark.slow
def test_intervals_contain_effects_that_differ_between_cells():
    hits, whole_hits = [], []
    for seed in range(10, 16):
        world = hazard_world(8_000, seed=seed, late=1.8, early=0.2)
        paths = paths_of(world)
        found = incremental_effects(paths, by="month").dropna(subset="node_id")
        truth = world.caused.groupby("month")[list(NODES)].sum()
        caused = [truth.loc[row.month, row.node_id] for row in found.itertuples()]
        hits += ((found["low"] <= caused) & (caused <= found["high"])).tolist()
        search = found[found["node_id"] == "search"].set_index("month")
        whole_hits.append(search.loc["2025-02", "low"] > search.loc["2025-01", "high"])
    # 48 intervals at 95 %: fewer than 42 has a probability of 0.6 %.
    assert sum(hits) >= 42
    assert sum(whole_hits) >= 5


def test_periods_begin_in_the_time_zone_of_the_paths(world):
    conversions = world.conversions.iloc[:2].assign(
        date=pd.to_datetime(["2025-01-31T22:30Z", "2025-01-31T23:30Z"])
    )
    users = world.users.assign(until=pd.Timestamp("2025-03-01", tz="UTC"))
    paths = replace(Paths.from_frames(world.touchpoints, conversions, users=users), timezone="Europe/Paris")
    cells = Cells.of(paths, Sequences.of(paths), ["month"])
    assert cells.keys["month"].tolist() == ["2025-01", "2025-02"]
    assert cells.keys["start"].tolist() == [
        pd.Timestamp("2024-12-31T23:00Z"),
        pd.Timestamp("2025-01-31T23:00Z"),
    ]
    assert cells.of_event.tolist() == [0, 1]


@pytest.mark.parametrize("is_touched_only", [False, True])
def test_periods_at_risk_belong_to_the_cell_of_their_user_and_moment(world, paths, is_touched_only):
    sequences = Sequences.of(paths)
    histories = Histories.of(sequences, covariates=())
    users = world.users
    if is_touched_only:
        histories = histories.from_first_touchpoint()
        users = users[users["user_id"].isin(world.touchpoints["user_id"])]
    sample = HazardSample.of(DiscreteHazard(comparisons=2), sequences, histories)
    cells = Cells.of(paths, sequences, BY)
    found = cells.keys.take(cells.of_periods(sample))
    users = users.sort_values("user_id", ignore_index=True)
    assert found["segment"].tolist() == users["segment"].take(sample.periods.user).tolist()
    moment = world.users["since"].min() + pd.to_timedelta(sample.periods.moment, unit="D")
    assert found["month"].tolist() == moment.strftime("%Y-%m").tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "colour"}, "by: 'colour' is not allowed; allowed: day, month, quarter, segment, semester"),
        ({"by": ["week", "month"]}, "by: .* is not allowed; allowed: one period, columns of users, or both"),
        ({"by": ["segment", "segment"]}, "by: .* is not allowed"),
        ({"by": []}, r"by: \[\] is not allowed"),
        ({"by": "month", "mediators": {"display": ["search"]}}, "by: not available together with mediators="),
        (
            {"by": "month", "withheld": pd.DataFrame({"user_id": ["u"], "node_id": ["display"]})},
            "by: not available together with withheld=",
        ),
    ],
)
def test_cells_that_cannot_be_estimated_are_refused(paths, arguments, message):
    with pytest.raises(InvalidRequest, match=message):
        incremental_effects(paths, **arguments)


def test_columns_with_too_many_values_are_refused(world):
    users = world.users.assign(mail=world.users["user_id"])
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=users)
    with pytest.raises(InvalidRequest, match="by: 'mail' has 5,000 different values; allowed: up to 100"):
        Cells.of(paths, Sequences.of(paths), ["mail"])
