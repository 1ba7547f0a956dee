import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attrib_ds.contract.json_values import Refused, depth, encode, is_deeper

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), parts, max_size=3)
    ),
    max_leaves=10,
)


@given(value=_JSON)
def test_any_json_comes_back_equal(value: Any) -> None:
    assert json.loads(encode(value)) == value


def test_texts_by_hand():
    for value, written in [
        (Decimal("0.10"), "0.1"),
        (Decimal("1E+3"), "1000"),
        (Decimal("100"), "100"),
        (Decimal("0.000001"), "0.000001"),
        (Decimal("-12.50"), "-12.5"),
        (Decimal("1E+5000"), "1E+5000"),
        (Decimal("1E+30"), "1" + "0" * 30),
        (Decimal("1E+31"), "1E+31"),
        (Decimal("-1.50E-300"), "-1.50E-300"),
        (Decimal("1E-5000"), "1E-5000"),
        (True, "true"),
        ("é\n", '"é\\n"'),
        ((1, [2]), "[1,[2]]"),
        ({"b": 1, "a": 2}, '{"b":1,"a":2}'),
    ]:
        assert encode(value) == written, (value, written)


@pytest.mark.parametrize(
    "refused",
    [
        float("nan"),
        float("-inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        "\udfff",
        {"\ud800": 1},
        {1: 2},
        {None: 1},
        b"bytes",
        {1, 2},
        object(),
        pytest.param(10**4_000, id="huge"),
    ],
)
def test_what_json_cannot_hold_is_refused(refused: object) -> None:
    with pytest.raises(Refused):
        encode([refused])


def test_depth_is_bounded_not_recursive() -> None:
    value: list[Any] = []
    for _ in range(20_000):
        value = [value]
    assert depth(value) == 65
    assert depth([[], {"a": []}]) == 3


def levels(value):
    """Return the depth of a value by recursion, independently of the package."""
    if isinstance(value, dict | list):
        return 1 + max(map(levels, value.values() if isinstance(value, dict) else value), default=0)
    return 0


TRICKY = st.text(alphabet='[]{}"\\a', max_size=4)


@given(
    st.recursive(TRICKY, lambda part: st.lists(part, max_size=3) | st.dictionaries(TRICKY, part, max_size=3))
)
def test_g261_levels_are_counted_in_text(value):
    text, deepest = json.dumps(value).encode(), levels(value)
    assert not is_deeper(text, deepest)
    assert not deepest or is_deeper(text, deepest - 1)


@pytest.mark.parametrize("parts", ["[]", '{"a":}'])
def test_g261_64_levels_are_allowed(parts):
    for deepest, expected in [(64, False), (65, True), (1_000_000, True)]:
        text = f"{parts[:-1] * deepest}1{parts[-1] * deepest}".encode()
        assert is_deeper(text) is expected
    # Text that ends early is no deep text.
    assert not is_deeper(b'{"data":[' + b'{"a":[1]},' * 100)
