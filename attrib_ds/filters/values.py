"""Checks the values of comparisons and converts them to canonical form."""

import math
import re
import reprlib
from collections.abc import Iterable, Mapping, Set
from datetime import date, datetime
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from attrib_ds import errors, instants
from attrib_ds.filters.vocabulary import OPERATORS, FieldType, Kind, Operator, read_as, refused, resolve
from attrib_ds.json_numbers import MOST_DIGITS, ExtremeNumber, plain, whole

Scalar = str | int | float | bool
Value = Scalar | tuple[Scalar, ...] | None

MOST_VALUES: Final = 10_000
LONGEST_TEXT: Final = 4_096
#: Maximum number of characters of the texts of a list.
LONGEST_LIST: Final = 1_000_000
#: Characters of a record's text in which substrings and patterns are searched: DuckDB does not react to an
#: interrupt within 2,048 texts.
SEARCHED: Final = 4_096
LONGEST_PATTERN: Final = 512
#: Maximum expanded size of a pattern.
LARGEST_PATTERN: Final = 600
_NOUNS: Final[Mapping[FieldType, str]] = {
    FieldType.TEXT: "text",
    FieldType.TEXTS: "text",
    FieldType.NUMBER: "a finite number",
    FieldType.FLAG: "True or False",
    FieldType.INSTANT: "an instant",
}
#: Methods of fields that take a list, by the operator that takes one value.
_OF_LISTS: Final = {"equals": "isin", "notEquals": "not_in"}
#: Class names of missing values, so that pandas is not imported to recognise its own.
_MISSING: Final = frozenset({"NoneType", "NAType", "NaTType"})


#: Names of the field, operator, type and value of a comparison in error messages.
Names = tuple[str, str, str, str]


def settle(
    kind: Kind, field: object, operator: object, value: object, operator_type: object, names: Names
) -> tuple[FieldType, Value]:
    """Check the parts of a comparison, and return its type and canonical value.

    Parameters
    ----------
    kind : {"interaction", "node", "user", "event"}
        Kind of record.
    field, operator : str
        Names in the specification.
    value : object
        As given by the caller.
    operator_type : str or None
        Type of the comparison; None for the type of the field, or else of the value.
    names : tuple of str
        Names of the field, operator, type and value in error messages: arguments or JSON pointers.

    Returns
    -------
    FieldType
        Type of the comparison.
    str, int, float, bool, tuple of these, or None
        See :func:`normalise`.

    Raises
    ------
    InvalidRequest
        If a part is not allowed.

    Examples
    --------
    >>> settle("user", "fields.age", "in", [30], None, ("field", "operator", "operator_type", "value"))
    (<FieldType.NUMBER: 'number'>, (30,))
    """
    field_name, operator_name, type_name, value_name = names
    declared = resolve(kind, field, argument=field_name)
    comparator = OPERATORS.get(operator) if isinstance(operator, str) else None
    if comparator is None:
        raise errors.InvalidRequest.choice(operator_name, operator, OPERATORS)
    field_type = read_as(declared, operator_type, argument=type_name)
    if field_type is None:
        field_type = infer_type(value, operator=comparator, argument=value_name)
    if field_type not in comparator.types:
        applying = [other for other in OPERATORS.values() if field_type in other.types]
        allowed = ", ".join(f"{other.name} ({other.python})" for other in applying)
        raise refused(
            operator_name,
            f"{comparator.name} ({comparator.python}) does not apply to a field of type {field_type.value}; "
            f"allowed: {allowed}",
        )
    return field_type, normalise(value, operator=comparator, field_type=field_type, argument=value_name)


def normalise(value: object, *, operator: Operator, field_type: FieldType, argument: str) -> Value:
    """Check a value against its operator and type, and return its canonical form.

    Parameters
    ----------
    value : object
        As given by the caller.
    operator : Operator
        Determines the number of values.
    field_type : FieldType
        Type of the values.
    argument : str
        Name of the argument in an error message.

    Returns
    -------
    str, int, float, bool, tuple of these, or None
        None if the operator takes no value. Instants become RFC 3339 text in UTC, calendar days stay days
        (``2025-04-01``) until the time zone is known, NumPy scalars become Python scalars; sets are sorted,
        other collections keep their order.

    Raises
    ------
    InvalidRequest
        If the shape, type or size of the value is not allowed.

    Examples
    --------
    >>> from attrib_ds.filters.vocabulary import OPERATORS
    >>> normalise(
    ...     "2025-01-01T01:00:00+01:00",
    ...     operator=OPERATORS["equals"],
    ...     field_type=FieldType.INSTANT,
    ...     argument="startDate",
    ... )
    '2025-01-01T00:00:00.000Z'
    """
    if operator.shape == "none":
        return None
    if operator.shape == "scalar":
        scalar = _scalar(value, operator, field_type, argument)
        if operator.positive == "matches":
            _check_pattern(str(scalar), argument)
        return scalar
    scalars = [_scalar(item, operator, field_type, argument) for item in _items(value, operator, argument)]
    length = sum(len(scalar) for scalar in scalars if isinstance(scalar, str))
    if length > LONGEST_LIST:
        raise refused(
            argument,
            f"{operator.name} ({operator.python}) takes texts of {LONGEST_LIST:,} characters "
            f"together, got {length:,}",
        )
    if operator.shape == "pair" and _is_reversed(scalars[0], scalars[1], field_type):
        raise refused(
            argument,
            f"{operator.name} ({operator.python}) takes a low and a high value, got {scalars[0]!r} above "
            f"{scalars[1]!r}; exchange them",
        )
    # The order of a set changes between runs; here all values have one type, so they can be sorted.
    return tuple(sorted(scalars) if isinstance(value, Set) else scalars)


def _is_reversed(low: Scalar, high: Scalar, field_type: FieldType) -> bool:
    """Return whether a low value is above the high one; not known of a day and an instant."""
    if field_type is FieldType.INSTANT and len(pair := calendar_days([low, high])) < 2:
        if pair:
            return False
        low, high = (instants.parse_exact(text, argument="value") for text in (low, high))  # type: ignore
    return low > high  # type: ignore[operator]


def calendar_days(values: Iterable[object]) -> list[str]:
    """Return the calendar days among canonical values of instants."""
    return [
        value for value in values if isinstance(value, str) and instants.parse_day(value, argument="value")
    ]


def infer_type(value: object, *, operator: Operator, argument: str) -> FieldType:
    """Return the type of a value, for a field without a type of its own.

    Parameters
    ----------
    value : object
        As given by the caller.
    operator : Operator
        Determines the number of values.
    argument : str
        Name of the argument in an error message.

    Returns
    -------
    FieldType
        Text without a value; otherwise the type of the first value.

    Raises
    ------
    InvalidRequest
        If the shape of the value is not allowed.

    Examples
    --------
    >>> from attrib_ds.filters.vocabulary import OPERATORS
    >>> infer_type(30, operator=OPERATORS["greaterThan"], argument="fields.age")
    <FieldType.NUMBER: 'number'>
    """
    if operator.shape == "none":
        return FieldType.TEXT
    first = value if operator.shape == "scalar" else _items(value, operator, argument)[0]
    if isinstance(first, (bool, np.bool_)):
        return FieldType.FLAG
    if isinstance(first, (int, float, Decimal, ExtremeNumber, np.number)):
        return FieldType.NUMBER
    return FieldType.INSTANT if isinstance(first, (date, datetime, np.datetime64)) else FieldType.TEXT


def _items(value: object, operator: Operator, argument: str) -> list[object]:
    # Iterating over the letters of text, the keys of a mapping or the columns of a frame is a mistake.
    is_single = isinstance(value, (str, bytes, Mapping)) or getattr(value, "ndim", 1) != 1
    items = list(value) if isinstance(value, Iterable) and not is_single else None
    if items is None or (operator.shape == "pair" and len(items) != 2):
        wanted = "a low and a high value" if operator.shape == "pair" else "a list of values"
        raise _refusal(value, operator, wanted, argument)
    if not 1 <= len(items) <= MOST_VALUES:
        raise refused(
            argument,
            f"{operator.name} ({operator.python}) takes 1 to {MOST_VALUES:,} values, got {len(items):,}",
        )
    return items


def _scalar(value: object, operator: Operator, field_type: FieldType, argument: str) -> Scalar:
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if type(value).__name__ in _MISSING or (isinstance(value, float) and math.isnan(value)):
        raise refused(
            argument,
            f"{operator.name} ({operator.python}) takes {_NOUNS[field_type]}, got the missing "
            f"value {value!r}; use isNull (.is_null()) or isNotNull (.is_not_null())",
        )
    if field_type is FieldType.INSTANT:
        day = instants.parse_day(value, argument=argument)
        if day is not None:
            return day.isoformat()
        return instants.format(instants.parse_exact(value, argument=argument))
    if field_type is FieldType.FLAG and isinstance(value, bool):
        return value
    if field_type is FieldType.NUMBER:
        number = _number(value)
        if number is not None:
            return number
    elif field_type in {FieldType.TEXT, FieldType.TEXTS} and isinstance(value, str):
        return _text(value, argument)
    raise _refusal(value, operator, _NOUNS[field_type], argument)


def _number(value: object) -> int | float | None:
    """Return a finite number within the range of every engine, or None."""
    if isinstance(value, int):
        return int(value) if not isinstance(value, bool) and -(2**63) <= value < 2**63 else None
    if isinstance(value, Decimal):
        if not value.is_finite() or value.adjusted() >= MOST_DIGITS:
            return None
        number = whole(value)
        return float(value) if number is None else number
    return float(value) if isinstance(value, float) and abs(value) < 10**MOST_DIGITS else None


def _text(value: str, argument: str) -> str:
    plain = str.__str__(value)
    # No engine stores these, and an SQL parser may stop at NUL.
    if "\0" in plain or any("\ud800" <= letter <= "\udfff" for letter in plain):
        raise refused(
            argument,
            f"{reprlib.repr(plain)} contains a NUL character or an unpaired surrogate; "
            "expected text without them",
        )
    if len(plain) > LONGEST_TEXT:
        raise refused(
            argument, f"a text may have at most {LONGEST_TEXT:,} characters, this one has {len(plain):,}"
        )
    return plain


def _check_pattern(pattern: str, argument: str) -> None:
    if len(pattern) > LONGEST_PATTERN:
        raise refused(
            argument, f"a pattern may have at most {LONGEST_PATTERN} characters, this one has {len(pattern)}"
        )
    size = expanded_size(pattern)
    if size > LARGEST_PATTERN:
        raise refused(
            argument,
            f"{reprlib.repr(pattern)} stands for {size:,} characters and classes once its "
            f"repetitions are written out, and is slow; allowed: {LARGEST_PATTERN}; "
            "repeat less, or begin it with ^",
        )
    try:
        # Arrow uses RE2, as DuckDB does.
        pyarrow.compute.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        raise refused(
            argument, f"{reprlib.repr(pattern)} is not a regular expression in RE2 syntax: {error}"
        ) from error


def _refusal(value: object, operator: Operator, wanted: str, argument: str) -> errors.InvalidRequest:
    is_decimal = isinstance(value, Decimal | ExtremeNumber)
    is_large = isinstance(value, float) and abs(value) >= 10**MOST_DIGITS
    hint = f"; numbers have at most {MOST_DIGITS} digits before the decimal point" if is_large else ""
    if operator.name in _OF_LISTS and isinstance(value, list | tuple | Set):
        hint = f"; write .{_OF_LISTS[operator.name]}([…]) for a list"
    return refused(
        argument,
        f"{operator.name} ({operator.python}) takes {wanted}, "
        f"got {reprlib.repr(plain(value))} ({'number' if is_decimal else type(value).__name__}){hint}",
    )


def as_written(pattern: str, *, is_flagged: bool = False) -> str:
    """Return a pattern for the same texts that DuckDB takes as it is.

    DuckDB turns ``.*`` under the flag ``s`` into LIKE, whose time is exponential and which it cannot
    interrupt; it leaves patterns with groups.

    Parameters
    ----------
    pattern : str
        In RE2 syntax.
    is_flagged : bool
        Whether flags may apply that the pattern does not name.

    Examples
    --------
    >>> as_written("(?s)a.*z"), as_written("a.*z")
    ('(?s)a.*z()', 'a.*z')
    """
    if not is_flagged and "(?" not in pattern:
        return pattern
    # Quoted text may reach to the end.
    return f"(){pattern}" if r"\Q" in pattern else f"{pattern}()"


#: One part of a pattern in RE2 syntax: literal text, escape, class, group, repetition or any other letter.
_PART: Final = re.compile(
    r"""(?P<quoted>\\Q.*?(?:\\E|$))
    | (?P<property>\\[pP](?:\{[^}]*\}|.))
    | (?P<escape>\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|.))
    | (?P<class>\[\^?\]?(?:\[:[^\]]*:\]|\\[pP]\{[^}]*\}|\\.|[^\]\\])*\])
    | (?P<flags>\(\?[imsU-]+\))
    | (?P<open>\((?:\?(?:P?<\w+>|[imsU-]*:))?)
    | (?P<close>\))
    | (?P<repetition>[*+?]|\{(?P<least>\d+)(?P<comma>,(?P<most>\d*))?\})
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
#: Sizes of a choice between characters, which may take several bytes, and of a Unicode property.
_CHOICE: Final = 4
_PROPERTY: Final = 50
#: Size of a choice, a group or an optional part where matching may begin anywhere: thirteen of them lead to
#: some thousand states. RE2 does not keep many more, and then each character costs a step for each of them.
_FREE: Final = 45


def expanded_size(pattern: str) -> int:
    """Estimate the size of a pattern, on which the time to match it depends.

    Parameters
    ----------
    pattern : str
        In RE2 syntax.

    Returns
    -------
    int
        About the number of characters and classes once all counted repetitions are written out. A choice, a
        group or an optional part counts as 45 unless the pattern begins with ``^`` and repeats a bounded
        number of times; a choice that is repeated without end counts as one.

    Examples
    --------
    >>> expanded_size("abc"), expanded_size("x{20}"), expanded_size("^(ab){3}$"), expanded_size("a.{40}c")
    (3, 20, 8, 1802)
    """
    is_bound = pattern.startswith("^") and not re.search(r"(?<!\\)[*+|]|,\}", pattern)
    choice, step = (_CHOICE, 0) if is_bound else (_FREE, _FREE)
    # Sizes of the open groups, and of the last part, which a repetition multiplies.
    sizes, last, is_repeated = [0], 0, False
    for part in _PART.finditer(pattern.removesuffix("()")):
        kind = part.lastgroup
        text = part.group()
        if part["repetition"] is not None:
            times = max(int(part["least"] or 1), int(part["most"] or 0), 1)
            if text in {"*", "+"} and last == choice:
                # A choice that is repeated without end leads to a single state; a group keeps its size.
                sizes[-1] -= last - 1
                last = 1
            elif text == "?" and not is_repeated:
                sizes[-1] += step
            sizes[-1] += last * (times - 1)
            last *= times
        elif kind == "open":
            sizes.append(step)
            last = 0
        elif kind == "close" and len(sizes) > 1:
            # An empty group costs a step each time.
            last = max(sizes.pop(), 1)
            sizes[-1] += last
        elif kind != "flags":
            last = _size(str(kind), text, choice)
            sizes[-1] += last
        is_repeated = part["repetition"] is not None
    return sum(sizes)


def _size(kind: str, text: str, choice: int) -> int:
    if kind == "quoted":
        return max(len(text) - 4, 1)
    properties = len(re.findall(r"\\[pP]", text)) if kind in {"property", "class"} else 0
    if properties:
        return properties * _PROPERTY
    is_choice = kind == "class" or text == "." or (kind == "escape" and text[1] in "CDSWdsw")
    return choice if is_choice else 1
