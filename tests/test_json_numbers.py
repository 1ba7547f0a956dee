"""Numbers of JSON are exact, and none takes longer than its digits."""

import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from attrib_ds.json_numbers import ExtremeNumber, exact_integer, exact_number, load_exact, plain, whole

JSON_NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,25})?", fullmatch=True)


@given(JSON_NUMBERS)
@example("1e999999999")
@example("0e999999999")
@example("1e-999999999")
@example("1e99999999999999999999999")
@example("1." + "0" * 5_000)
def test_arithmetic_with_a_number_is_fast(text):
    number = exact_number(text)
    if isinstance(number, Decimal):
        assert number == Decimal(text)
        # Either would take minutes for an exponent of nine digits.
        assert len(str(int(number))) < 500
        assert len(f"{number:f}") < 10_000
    else:
        assert number.text == text


def test_integers_of_more_than_400_digits_stay_text():
    for sign in ["", "-"]:
        # To read and write 4,200 digits takes a hundred times as long as 400.
        assert exact_integer(f"{sign}{'9' * 399}") == int(f"{sign}1{'0' * 399}") - int(f"{sign}1"), sign
        assert exact_integer(f"{sign}{'9' * 4_200}") == ExtremeNumber(f"{sign}{'9' * 4_200}"), sign
        assert load_exact(f"[{sign}{'9' * 401}]") == [ExtremeNumber(f"{sign}{'9' * 401}")], sign


def test_integers_that_python_could_not_read_again_are_refused():
    with pytest.raises(ValueError, match="too many digits"):
        exact_integer("9" * 4_301)


@given(JSON_NUMBERS)
@example("1.0")
@example("1e0")
@example("-0.0")
@example("0e20")
@example("999999999999999999.0")
@example("1000000000000000000.0")
@example("1e17")
@example("1e999999999")
@example("1E-000")
def test_whole_numbers_have_no_fraction_and_at_most_18_digits(text):
    mantissa, _, power = text.lower().partition("e")
    digits, _, fraction = mantissa.lstrip("-").partition(".")
    expected = None
    if abs(int(power or 0)) < 1_000:
        # In integers: the digits without their point, and how far it is from their end.
        scale = int(power or 0) - len(fraction)
        number = int(digits + fraction)
        # A zero has no size, but its exponent is within the bounds, or it stays text.
        assume(number or abs(scale) <= 400)
        is_whole = scale >= 0 or number % 10**-scale == 0
        number = (number * 10**scale if scale >= 0 else number // 10**-scale) if is_whole else 0
        if is_whole and number < 10**18:
            expected = -number if text.startswith("-") else number
        assert whole(exact_number(text)) == expected
    elif expected is None and int(digits + fraction):
        assert whole(exact_number(text)) is None


def test_what_is_a_whole_number():
    for value, expected in [
        (5, 5),
        (-(10**25), -(10**25)),
        (np.int64(5), 5),
        (2.0, 2),
        (-0.0, 0),
        (np.float32(2), 2),
        (1e18, None),
        (1.5, None),
        (float("nan"), None),
        (float("inf"), None),
        (Decimal("NaN"), None),
        (Decimal("Infinity"), None),
        (True, None),
        (np.True_, None),
        ("1", None),
        ("١", None),
        (None, None),
    ]:
        assert whole(value) == expected, (value, expected)
        assert expected is None or type(whole(value)) is int, (value, expected)


def test_stored_text_keeps_its_numbers():
    assert load_exact(b'{"a": [0.10, 1, 1e999]}') == {"a": [Decimal("0.10"), 1, ExtremeNumber("1e999")]}
    with pytest.raises(json.JSONDecodeError):
        load_exact("[0x10]")


def test_messages_show_numbers_as_json():
    assert [repr(plain(value)) for value in (Decimal("1.0"), np.float64(2.5), np.int64(3), 1.0, "1.0")] == [
        "1.0",
        "2.5",
        "3",
        "1.0",
        "'1.0'",
    ]
