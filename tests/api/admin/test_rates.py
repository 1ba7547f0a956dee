"""What currencies are worth, through the public functions."""

import pandas as pd
import pytest

from attrib_ds import connect
from attrib_ds.api.admin import list_rates, set_rates
from attrib_ds.errors import InvalidRequest


@pytest.fixture
def shop():
    with connect("my-shop", path=":memory:") as project:
        yield project


def test_rates_are_set_and_listed(shop):
    frame = pd.DataFrame(
        {"currency": "NOK", "date": pd.to_datetime(["2025-02-01", "2025-01-01"]), "rate": [1, 0.085]}
    )
    assert set_rates(shop, frame) == 2
    assert set_rates(shop, frame.assign(rate=[2, 0.085])) == 1
    listed = list_rates(shop, currency="NOK")
    assert listed["date"].dt.strftime("%Y-%m-%d").tolist() == ["2025-01-01", "2025-02-01"]
    assert listed["rate"].tolist() == [0.085, 2.0]
    assert listed.attrs["total"] == 2
    empty = list_rates(shop, currency="USD")
    assert empty.dtypes.to_dict() == listed.dtypes.to_dict()


def test_g065_a_missing_rate_removes_the_one_of_its_date(shop):
    days = ["2025-01-01", "2025-02-01"]
    set_rates(shop, pd.DataFrame({"currency": "NOK", "date": days, "rate": [0.085, 0.09]}))
    removal = pd.DataFrame({"currency": "NOK", "date": [days[1], "2025-03-01"], "rate": [None, float("nan")]})
    assert set_rates(shop, removal) == 1
    assert list_rates(shop)["rate"].tolist() == [0.085]
    assert set_rates(shop, removal) == 0


def test_frames_that_are_no_rates(shop):
    frame = pd.DataFrame({"currency": ["NOK", "NOK"], "date": "2025-01-01", "rate": [0.085, 0]})
    with pytest.raises(InvalidRequest, match="rates/1/rate: "):
        set_rates(shop, frame)
    with pytest.raises(InvalidRequest, match="rates: has no column 'rate'"):
        set_rates(shop, frame.drop(columns="rate"))
    with pytest.raises(InvalidRequest, match="rates/0/currency: 'EUR' is the currency of the project"):
        set_rates(shop, frame.head(1).assign(currency="EUR"))
    assert len(list_rates(shop)) == 0
