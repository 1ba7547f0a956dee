"""Generates ids: 24 hexadecimal digits, sortable by creation, and UUIDs of version 7."""

from __future__ import annotations

import secrets
import threading
import time
from random import Random
from typing import Final

#: Pattern of the ids of interactions and users.
HEX_ID: Final = "[a-f0-9]{24}"
#: Pattern of the ids of events and hits.
UUID: Final = "[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}"

_COUNTER_BITS: Final = 24


class HexIds:
    """Generates ids of 4 bytes of time, 5 random bytes and a 3-byte counter (G-045).

    Ids of one generator are strictly increasing, even if the clock steps back or more than 16 million are
    generated in a second.

    Examples
    --------
    >>> ids = HexIds()
    >>> first, second = ids.new(), ids.new()
    >>> len(first), first < second
    (24, True)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._random = secrets.token_hex(5)
        # Seconds and counter as one number, so that a full counter carries over into the seconds.
        self._last = -1

    def new(self) -> str:
        """Return a new id."""
        number = self._take(1)
        counter = number & ((1 << _COUNTER_BITS) - 1)
        return f"{number >> _COUNTER_BITS:08x}{self._random}{counter:06x}"

    def many(self, position: str, *, count: int) -> str:
        """Return a SQL expression that generates one id per row.

        Parameters
        ----------
        position : str
            SQL expression that numbers the rows, from 0.
        count : int
            Number of ids to reserve; ``position`` must be below it.

        Returns
        -------
        str
            SQL expression of type VARCHAR.

        Examples
        --------
        >>> import duckdb
        >>> query = f"SELECT {HexIds().many('range', count=3)} AS id FROM range(3)"
        >>> ids = [id for (id,) in duckdb.sql(query).fetchall()]
        >>> ids == sorted(set(ids))
        True
        """
        number = f"({self._take(count)} + {position})"
        counter = f"{number} & {(1 << _COUNTER_BITS) - 1}"
        return f"format('{{:08x}}{self._random}{{:06x}}', {number} >> {_COUNTER_BITS}, {counter})"

    def _take(self, count: int) -> int:
        with self._lock:
            first = max(int(time.time()) << _COUNTER_BITS, self._last + 1)
            self._last = first + count - 1
            return first


class Uuids:
    """Generates UUIDs of version 7, sortable by creation to the millisecond (RFC 9562).

    The operating system is asked for randomness once: each of its calls hands the interpreter to another
    thread, which costs a busy server more than the id.

    Examples
    --------
    >>> Uuids().new()[14]  # the digit of the version
    '7'
    """

    def __init__(self) -> None:
        self._random = Random(secrets.randbits(256))  # noqa: S311  (ids are not secret)

    def new(self) -> str:
        """Return a new UUID."""
        bits = self._random.getrandbits(74)
        number = (time.time_ns() // 1_000_000 << 80) | (0x7 << 76) | (bits >> 62 << 64) | (0b10 << 62)
        digits = f"{number | bits & ((1 << 62) - 1):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_uuid() -> str:
    """Return a UUID of version 7 from a generator of its own.

    Examples
    --------
    >>> len(new_uuid())
    36
    """
    return Uuids().new()
