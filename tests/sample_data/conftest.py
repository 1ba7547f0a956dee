"""Fixtures of the shipped tables."""

import pandas as pd
import pytest

from attrib_ds.sample import files


def _shipped(name: str) -> pd.DataFrame:
    return pd.read_parquet(files()[name], dtype_backend="numpy_nullable")


@pytest.fixture(scope="session")
def nodes() -> pd.DataFrame:
    return _shipped("nodes")


@pytest.fixture(scope="session")
def interactions() -> pd.DataFrame:
    return _shipped("interactions")


@pytest.fixture(scope="session")
def hits() -> pd.DataFrame:
    return _shipped("hits")


@pytest.fixture(scope="session")
def events() -> pd.DataFrame:
    return _shipped("events")


@pytest.fixture(scope="session")
def spend() -> pd.DataFrame:
    return _shipped("spend")


@pytest.fixture(scope="session")
def visits(interactions: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    """Interactions that may get credit (G-203), with the channel of their node."""
    eligible = interactions[~interactions["isBot"] & interactions["trafficFilterId"].isna()]
    return eligible.assign(channel=eligible["nodeId"].map(nodes.set_index("_id")["channel"]))
