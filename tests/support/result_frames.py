"""Small results, as plots take them."""

import pandas as pd

HAZARD_EFFECTS = pd.DataFrame(
    {
        "node_id": ["a", "d"],
        "node_name": ["Ads", "Direct"],
        "currency": "EUR",
        "credited": [30.0, 20.0],
        "caused": [9.0, 1.0],
        "low": [5.0, -2.0],
        "high": [13.0, 4.0],
    }
)
SENSITIVITY = pd.DataFrame(
    {
        "node_id": ["a"],
        "node_name": ["Ads"],
        "currency": "EUR",
        "robustness_value": [0.02],
        "robustness_value_interval": [0.01],
        "benchmark": ["organic"],
        "benchmark_strength": [2.5],
        "benchmark_exposure": [0.15],
        "benchmark_outcome": [0.0001],
    }
)
MODEL_ORDERS = pd.DataFrame(
    {
        "order": [1, 2],
        "held_out": [-9.0, -8.0],
        "behind": [1.0, 0.0],
        "behind_error": [0.1, 0.0],
        "is_best": [False, True],
        "is_parsimonious": [False, True],
    }
)
