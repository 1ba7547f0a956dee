"""Pseudo-random numbers and groups of users by a hash, reproducible on every engine.

Identifiers are hashed by MD5, which every engine has. Further arithmetic stays in integers below 2**62, so
that no engine rounds or overflows.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

import ibis

from attrib_ds.attribution.engines.engine import dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import ibis.expr.types as ir

#: Prime modulus of the numbers.
PRIME: Final = 2**31 - 1

#: Number of hexadecimal digits of the hash to use, and their base.
_DIGITS: Final = 8
_BASE: Final = 16


def _builtin(name: str, taken: str, returned: str) -> Callable[[Any], Any]:
    """Declare a built-in function of an engine by its name and types."""

    def function(value: Any) -> Any: ...

    declared: Callable[[Any], Any] = ibis.udf.scalar.builtin(
        function, name=name, signature=((taken,), returned)
    )
    return declared


#: MD5 as hexadecimal text in lower case on engines whose function returns bytes.
_DIGESTS: Final[dict[str, Callable[[Any], Any]]] = {
    "bigquery": lambda text: _builtin("to_hex", "binary", "string")(
        _builtin("md5", "string", "binary")(text)
    ),
    "clickhouse": lambda text: _builtin("hex", "binary", "string")(
        _builtin("MD5", "string", "binary")(text)
    ).lower(),
    "trino": lambda text: _builtin("to_hex", "binary", "string")(
        _builtin("md5", "binary", "binary")(_builtin("to_utf8", "string", "binary")(text))
    ).lower(),
}


def group_of(text: ir.StringValue, groups: int) -> Any:
    """Assign each text to one of several groups of about equal size.

    Parameters
    ----------
    text : ibis string
        Identifiers, such as those of users.
    groups : int
        Number of groups.

    Returns
    -------
    ibis integer
        0 to ``groups - 1``; 0 where the text is missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> users = ibis.memtable(pa.table({"user_id": ["ann", "bob", "cleo"]}))
    >>> users.order_by("user_id").select(group=group_of(users.user_id, 20)).to_pyarrow()["group"].to_pylist()
    [9, 12, 19]
    """
    digest = _digest(text)
    # Comparing digits as text is far faster than parsing a number.
    bounds = (f"{_BASE**_DIGITS * group // groups:0{_DIGITS}x}" for group in range(1, groups))
    return _passed(digest, bounds)


def number_of(text: ir.StringValue) -> Any:
    """Return a pseudo-random number from 0 to ``PRIME - 1`` for each text.

    Parameters
    ----------
    text : ibis string
        Identifiers, such as those of users.

    Returns
    -------
    ibis integer
        int64; null where the text is null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> users = ibis.memtable(pa.table({"user_id": ["ann", "bob"]}))
    >>> users.order_by("user_id").select(number=number_of(users.user_id)).to_pyarrow()["number"].to_pylist()
    [2114813834, 530403773]
    """
    digest = _digest(text)
    number: Any = 0
    for place in range(_DIGITS):
        code = digest.substr(place, 1).ascii_str().cast("int64")
        number = number * _BASE + ibis.ifelse(code > ord("9"), code - (ord("a") - 10), code - ord("0"))
    return number % PRIME


def _digest(text: ir.StringValue) -> Any:
    plain = _builtin("md5", "string", "string")
    return _DIGESTS.get(dialect_of(text), plain)(text)


def _passed(values: Any, bounds: Iterable[Any]) -> Any:
    """Return how many bounds each value reaches."""
    return reduce(add, (ibis.ifelse(values >= bound, 1, 0) for bound in bounds), ibis.literal(0))
