"""The currency codes of ISO 4217."""

from __future__ import annotations

import pytest

from attrib_ds.contract.identifiers import CURRENCIES


@pytest.mark.parametrize(
    "code", ["EUR", "USD", "NOK", "XXX", "ZWG", "XCG", "DEM", "FRF", "HRK", "BGN", "ZRN"]
)
def test_codes_in_force_and_withdrawn_are_known(code):
    assert code in CURRENCIES


@pytest.mark.parametrize("code", ["ZZZ", "eur", "EURO", "BTC", "", "EU"])
def test_other_codes_are_not(code):
    assert code not in CURRENCIES


def test_there_are_as_many_as_in_the_lists():
    """178 currencies in list one, and 129 more in list three."""
    assert len(CURRENCIES) == 178 + 129
    assert all(len(code) == 3 and code.isupper() and code.isascii() for code in CURRENCIES)
