"""Effects by period and segment, and scaled from observed to all users: by hand, and with known effects."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.hazard_world import NODES, hazard_world

from attrib_ds import Paths, estimate_effects, simulate
from attrib_ds.attribution.experiments.effects import scaled
from attrib_ds.attribution.experiments.estimation import Part
from attrib_ds.attribution.experiments.holdouts import holdout_effects
from attrib_ds.attribution.experiments.segments import ObservedShares, Segments
from attrib_ds.attribution.incremental.discrete_hazard import HazardSample
from attrib_ds.attribution.incremental.histories import Histories
from attrib_ds.attribution.intervals import Tally
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest, NotSupported
from attrib_ds.simulation import Channel, Scenario

BY = ["segment", "month"]
BY_TRAIT = {"trait": {True: 0.5, False: (0.8, 0.02)}}


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
    return estimate_effects(paths, controls=["direct"])


@pytest.mark.large
@pytest.mark.slow
def test_each_cell_has_its_rows(effects):
    found = effects.by(BY)
    assert list(found.columns) == [*BY, "start", *effects.table().columns]
    cells = found[[*BY, "start"]].drop_duplicates().to_numpy().tolist()
    months = {name: pd.Timestamp(f"{name}-01", tz="UTC") for name in ("2025-01", "2025-02")}
    assert cells == [[part, month, months[month]] for part in ("north", "south") for month in months]
    for _, rows in found.groupby(BY):
        assert set(rows["node_id"].dropna()) == set(NODES)
        assert pd.isna(rows["node_id"].iloc[-1])
        assert rows["caused"].iloc[:-1].is_monotonic_decreasing
    wide, narrow = (each["high"] - each["low"] for each in (found, effects.by(BY, confidence=0.5)))
    assert (wide > 2 * narrow).all()


@pytest.mark.slow
def test_cells_add_up_to_the_whole(world, effects):
    whole, found = effects.table().set_index("node_id"), effects.by(BY)
    summed = found.groupby("node_id", dropna=False)[["credited", "caused"]].sum()
    assert summed["credited"].to_dict() == pytest.approx(whole["credited"].to_dict(), nan_ok=True)
    assert found.groupby(BY)["caused"].sum().to_dict() == pytest.approx(
        world.caused.groupby(BY).size().to_dict()
    )
    for node in NODES:
        assert whole.loc[node, "low"] < summed.loc[node, "caused"] < whole.loc[node, "high"]


@pytest.mark.large
@pytest.mark.slow
def test_effects_of_a_segment_are_those_of_its_users_alone(world, paths):
    model = DiscreteHazard(comparisons=1_000)  # All periods, so that nothing is drawn but times of day.
    found = estimate_effects(paths, model).by("segment").set_index(["segment", "node_id"])
    users = world.users[world.users["segment"] == "north"]
    parts = [rows[rows["user_id"].isin(users["user_id"])] for rows in (world.touchpoints, world.conversions)]
    alone = estimate_effects(Paths.from_frames(*parts, users=users), model).table().set_index("node_id")
    for node in NODES:
        row, expected = found.loc[("north", node)], alone.loc[node]
        width = expected["high"] - expected["low"]
        assert row["caused"] == pytest.approx(expected["caused"], abs=0.1 * width)
        assert row["high"] - row["low"] == pytest.approx(width, rel=0.4)


@pytest.mark.large
@pytest.mark.slow
def test_intervals_contain_effects_that_differ_between_cells():
    hits, whole_hits = [], []
    for seed in range(10, 16):
        world = hazard_world(4_000, seed=seed, late=1.8, early=0.2)
        paths = paths_of(world)
        found = estimate_effects(paths).by("month").dropna(subset="node_id")
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
    cells = Segments.of(Sequences.of(paths)).cells("month")
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
    cells = Segments.of(sequences).cells(BY)
    found = cells.keys.take(cells.of_periods(sample))
    users = users.sort_values("user_id", ignore_index=True)
    assert found["segment"].tolist() == users["segment"].take(sample.periods.user).tolist()
    moment = world.users["since"].min() + pd.to_timedelta(sample.periods.moment, unit="D")
    assert found["month"].tolist() == moment.strftime("%Y-%m").tolist()


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("colour", "by: 'colour' is not allowed; allowed: day, month, quarter, segment, semester"),
        (["week", "month"], "by: .* is not allowed; allowed: one period, columns of users, or both"),
        (["segment", "segment"], "by: .* is not allowed"),
        ([], r"by: \[\] is not allowed"),
    ],
)
def test_cells_that_make_no_sense_are_refused(paths, by, message):
    with pytest.raises(InvalidRequest, match=message):
        Segments.of(Sequences.of(paths)).cells(by)


def test_columns_with_too_many_values_or_a_taken_name_are_refused(world):
    users = world.users.assign(mail=world.users["user_id"], value="high")
    segments = Segments.of(Sequences.of(paths_of(replace(world, users=users))))
    with pytest.raises(InvalidRequest, match="by: 'mail' has 5,000 different values; allowed: up to 100"):
        segments.cells("mail")
    # Only the number of addresses is kept.
    assert segments.columns["mail"] == 5_000
    with pytest.raises(InvalidRequest, match="by: 'value' is not allowed"):
        segments.cells("value", taken=["value"])


def test_a_known_share_scales_the_estimate_and_its_bounds():
    given = np.array([70.0, -7.0]), np.array([35.0, -14.0]), np.array([140.0, 0.0])
    found = scaled(given, (0.7, 0.0), confidence=0.95)
    assert [each.tolist() for each in found] == [
        pytest.approx([100, -10]),
        pytest.approx([50, -20]),
        pytest.approx([200, 0]),
    ]


def test_the_error_of_the_share_widens_the_interval():
    given = np.array([50.0]), np.array([50 - 1.959964 * 3]), np.array([50 + 1.959964 * 3])
    _, low, high = scaled(given, (0.5, 0.02), confidence=0.95)
    # Standard errors: 3 / 0.5 = 6 of the effect, 50 * 0.02 / 0.25 = 4 of the share.
    assert high[0] - 100 == pytest.approx(1.959964 * np.sqrt(36 + 16))
    assert 100 - low[0] == pytest.approx(1.959964 * np.sqrt(36 + 16))
    # The same as the spread of the ratio of two normal variables.
    random = np.random.default_rng(1)
    ratios = random.normal(50, 3, 100_000) / random.normal(0.5, 0.02, 100_000)
    assert np.std(ratios) == pytest.approx(np.sqrt(52), rel=0.02)


@pytest.mark.parametrize(
    "given",
    [
        *(0, 1.1, -0.5, True, "0.7", (0.7,), (0.7, -0.1), (0.7, 0.8), float("nan"), None),
        *({}, {"country": 0.7}, {"country": {}}, {"country": {"FR": 0}}, {1: {"FR": 0.5}}),
        {"country": {"FR": 0.5}, "trait": {True: 0.5}},
    ],
)
def test_what_is_no_share_is_refused(given):
    with pytest.raises(InvalidRequest, match="observed_share: .* is not allowed"):
        ObservedShares.read(given)


def part_of(caused, error, credited, share):
    """A node with a jackknife error, and conversions in one segment."""
    # Without each of twenty groups: 19/20 of the whole, half of them higher by some amount, half lower.
    spread = error / np.sqrt(19) * 19 / 20 * np.where(np.arange(20) % 2, 1, -1)
    without = [np.array([[19 / 20 * caused + each]]) for each in spread]
    whole = np.array([[caused]])
    tally = Tally(["EUR"], whole, whole, whole > 0, without, without)
    return Part(tally, np.array([[credited]]), share)


@pytest.mark.large
@pytest.mark.slow
def test_segments_are_scaled_by_their_own_shares_and_added_up(trait_effects):
    """Checked by hand: segment A with a share of 0.5 (standard error 0.02), segment B with 0.8."""
    shares = ObservedShares.read({"country": {"A": (0.5, 0.02), "B": 0.8}})
    parts = (
        part_of(50.0, 3.0, 20.0, shares.of_segment("A")),
        part_of(40.0, 4.0, 16.0, shares.of_segment("B")),
    )
    both = replace(
        trait_effects, node_ids=["radio"], node_names=["Radio"], parts=parts, is_shown=np.ones((1, 1), bool)
    )
    (row,) = both.table().to_dict("records")
    assert (row["caused"], row["credited"]) == pytest.approx((150, 60))
    # Variances: (3 / 0.5)^2 in A, (4 / 0.8)^2 in B, both by a jackknife; (50 * 0.02 / 0.25)^2 of the share of A.
    reach = np.sqrt(2.093024**2 * (36 + 25) + 1.959964**2 * 16)
    assert row["high"] - 150 == pytest.approx(reach, rel=1e-6)
    assert 150 - row["low"] == pytest.approx(reach, rel=1e-6)


@pytest.fixture(scope="module")
def trait_effects():
    world = simulate("random", users=600, seed=1)
    return estimate_effects(Paths.from_frames(world.touchpoints, world.conversions, users=world.users))


@pytest.mark.slow
def test_effects_by_segment_are_divided_by_its_share(trait_effects):
    by_trait = trait_effects.scale(BY_TRAIT)
    plain, scaled = (each.by("trait") for each in (trait_effects, by_trait))
    share = np.where(plain["trait"], 0.5, 0.8)
    for column in ("credited", "caused"):
        assert (scaled[column] * share).tolist() == pytest.approx(plain[column].tolist())
    of_trait = plain["trait"].to_numpy(dtype=bool)
    assert (scaled["low"] * share)[of_trait].tolist() == pytest.approx(plain["low"][of_trait].tolist())
    assert (scaled["high"] - scaled["low"] > (plain["high"] - plain["low"]) / share)[~of_trait].all()
    # In the table, they are added up, and their errors are independent.
    total = by_trait.table().set_index("node_id")
    summed = scaled.groupby("node_id", dropna=False)[["credited", "caused"]].sum()
    for column in ("credited", "caused"):
        assert total[column].to_dict() == pytest.approx(summed[column].to_dict(), nan_ok=True)
    squares = ((scaled["high"] - scaled["caused"]) ** 2).groupby(scaled["node_id"], dropna=False).sum()
    reach = total["high"] - total["caused"]
    assert (reach**2).to_dict() == pytest.approx(squares.to_dict(), nan_ok=True)
    assert total.index[-1] is pd.NA or pd.isna(total.index[-1])
    assert total["caused"].iloc[:-1].is_monotonic_decreasing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"train": {True: 0.5}}, "observed_share: 'train' is not .*did you mean 'trait'"),
        ({"trait": {True: 0.5}}, "no share is given for trait False; allowed: one share"),
        ({"trait": {True: 0.5, False: 0.5, "x": 0.1}}, "observed_share: no user has trait 'x'"),
    ],
)
def test_shares_by_segment_that_cannot_be_used_are_refused(trait_effects, shares, message):
    with pytest.raises(InvalidRequest, match=message):
        trait_effects.scale(shares)


def test_effects_scaled_by_segment_are_reported_by_that_segment_only(trait_effects):
    scaled_by = trait_effects.scale(BY_TRAIT)
    with pytest.raises(InvalidRequest, match=r"by: \['month'\] is not allowed for effects scaled by 'trait'"):
        scaled_by.by("month")
    with pytest.raises(NotSupported, match="not estimated by segment"):
        scaled_by.through({"display": ["email"]})


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_with_consent_that_differs_by_segment_its_shares_give_the_level_of_all():
    """Users with the trait, who get most e-mails and buy more, consent in 3 of 10 cases, others in 9 of 10."""
    channel = Channel("email", 4, 0.05, "subscribers", direct=1.5)
    world = simulate(Scenario((channel,), follows_intent=True), users=75_000, seed=5)
    has_trait = world.users["trait"].to_numpy(dtype=bool)
    kept = world.users[np.random.default_rng(3).random(len(has_trait)) < np.where(has_trait, 0.3, 0.9)]
    frames = [
        frame[frame["user_id"].isin(kept["user_id"])] for frame in (world.touchpoints, world.conversions)
    ]
    observed = Paths.from_frames(*frames, users=kept)
    caused = world.truth().set_index("node_id").loc["email", "removal"]
    credited = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    whole = estimate_effects(credited).table().set_index("node_id").loc["email"]
    one, by_segment = (
        estimate_effects(observed).scale(share).table().set_index("node_id").loc["email"]
        for share in (len(kept) / len(world.users), {"trait": {True: 0.3, False: 0.9}})
    )
    assert by_segment["credited"] / whole["credited"] == pytest.approx(1, abs=0.05)
    assert one["credited"] / whole["credited"] < 0.85
    assert one["high"] < caused
    assert by_segment["low"] < caused < by_segment["high"]


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_with_users_missing_at_random_the_scaled_level_is_that_of_all():
    world = simulate("random", users=60_000, seed=2)
    kept = world.users[np.random.default_rng(3).random(len(world.users)) < 0.7]
    frames = [
        frame[frame["user_id"].isin(kept["user_id"])] for frame in (world.touchpoints, world.conversions)
    ]
    effects = [
        estimate_effects(Paths.from_frames(*given, users=users)).scale(share).table()
        for given, users, share in (
            ((world.touchpoints, world.conversions), world.users, 1.0),
            (frames, kept, 0.7),
        )
    ]
    whole, scaled = (each[each["node_id"].notna()][["credited", "caused"]].sum() for each in effects)
    assert scaled["credited"] / whole["credited"] == pytest.approx(1, abs=0.05)
    assert scaled["caused"] / whole["caused"] == pytest.approx(1, abs=0.2)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_experiment_is_scaled_and_what_compares_it_with_the_model_is_not():
    world = simulate("random", users=5_000, seed=4, holdout=0.2)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    effects, holdout = estimate_effects(paths, controls=["direct"]), holdout_effects(paths, world.withheld)
    for result in (holdout, effects.combine(holdout), effects):
        plain, scaled = result.table(), result.scale(0.5).table()
        numbers = plain.columns[3:]
        pd.testing.assert_frame_equal(scaled[numbers], 2 * plain[numbers])
    combined = effects.combine(holdout)
    pd.testing.assert_frame_equal(combined.scale(0.5).evidence(), combined.evidence())
    assert effects.scale(0.5).identified == effects.identified
    pd.testing.assert_frame_equal(effects.scale(0.5).verdict(), effects.verdict())
