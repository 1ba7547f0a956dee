"""Large chains, whose walks are followed step by step, against a dense solve without each node."""

import itertools

import numpy as np
import pytest
from support.journeys_as_paths import paths_of
from support.reference_path_models import expected

from attrib_ds import removal_effects

NAMES = [f"node {index:02d}" for index in range(40)]


def journeys_of(number):
    """Random journeys with values of both signs, some of which repeat nodes."""
    random = np.random.default_rng(number)
    return [
        (
            tuple(NAMES[at] for at in random.integers(0, 40, random.integers(1, 5))) * (1 + index % 3),
            int(index % 3 != 1),
            float(random.integers(-9, 30)) if index % 3 != 1 else 0.0,
            index % 4,
        )
        for index in range(number)
    ]


def check_effects(rows, *, order, nodes):
    found = removal_effects(paths_of(rows), order=order).set_index("node_id")
    assert len({pair for path, *_ in rows for pair in itertools.pairwise(path)}) > 512
    for column, of in (("removal_effect", "conversions"), ("value_removal_effect", "value")):
        whole = expected(rows, order, of=of)
        lost = {node: 1 - expected(rows, order, removed=node, of=of) / whole for node in nodes}
        assert found.loc[nodes, column].to_dict() == pytest.approx(lost, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
def test_large_chains_equal_a_dense_solve_without_the_node(order):
    check_effects(journeys_of(400), order=order, nodes=NAMES[::9])


@pytest.mark.slow
def test_long_walks_are_solved():
    round_and_round = ((NAMES[0], NAMES[0], NAMES[1]) * 3_000, 1, 7.0, 1)
    check_effects([*journeys_of(400), round_and_round], order=2, nodes=NAMES[:3])
