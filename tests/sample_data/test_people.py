"""Weighted random draws."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sample_data.people import pick


def test_pick_follows_the_weights() -> None:
    # Weights 1, 0, 3 reach 0.25, 0.25 and 1 of their sum: nothing falls on the second.
    draws = np.array([0.0, 0.2499, 0.25, 0.9999])
    assert pick(draws, np.array([1.0, 0.0, 3.0])).tolist() == [0, 0, 2, 2]


def test_pick_takes_weights_per_row() -> None:
    weights = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert pick(np.array([0.6, 0.0, 0.9]), weights).tolist() == [1, 1, 0]


@given(
    st.floats(0, 1, exclude_max=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any),
)
def test_pick_never_picks_a_weight_of_zero(draw: float, weights: list[int]) -> None:
    (position,) = pick(np.array([draw]), np.array(weights, dtype=np.float64))
    assert weights[position] > 0
