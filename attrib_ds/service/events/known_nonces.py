"""Tells which nonces are certainly new, so that accepting an event needs no query.

DuckDB finds several nonces by a scan of the table, which takes longer the more events there are. A Bloom
filter [1]_ in memory has all nonces. It never calls a known nonce new; of the new ones it takes a few for
known, and those are looked up.

References
----------
.. [1] B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", Communications of the ACM 13
   (1970), 422-426.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np

from attrib_ds.errors import AttribError
from attrib_ds.service.identity.tombstones import NONCE, hidden_forms, read_salts
from attrib_ds.service.store.background_threads import start_thread
from attrib_ds.service.store.forks import abandon_after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from attrib_ds.service.store.store import Store

#: Bits per nonce and bits set per nonce: of the new nonces of a full filter, two in a thousand are looked up.
_BITS: Final = 16
_HASHES: Final = 4
_SMALLEST: Final = 2**18
_ROWS: Final = 100_000
_LOW: Final = 2**32 - 1
#: Nonces as sent, and the hashes that replace those of erased events (G-210).
_NONCES: Final = (
    "SELECT md5_number_lower(nonce) FROM (SELECT nonce FROM raw_events "
    f"UNION ALL SELECT 'erased ' || hash FROM tombstones WHERE kind = '{NONCE}')"
)


class KnownNonces:
    """The nonces of a project; one thread adds them.

    A background thread reads the nonces of the tables. Until it has, every nonce may be known.

    Parameters
    ----------
    store : Store
        The project, whose log is empty and to which nothing else adds raw events.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_stopped = False
        self._salts: Sequence[str] = ()
        self._filter: _Filter | None = None
        #: Hashes of nonces that were added before the filter was there.
        self._early: set[int] = set()
        self._read_again(())
        abandon_after_fork(self)

    def add(self, nonces: Collection[str], *, unstored: Callable[[], Collection[str]]) -> bool:
        """Add nonces; return whether all of them are certainly new, and each was given once.

        Parameters
        ----------
        nonces : collection of str
            Nonces as sent.
        unstored : callable
            Returns the nonces that were added and may not be in the tables yet.
        """
        hashes = [_hash(nonce) for nonce in nonces]
        if self._filter is None:
            self._early.update(hashes)
            return False
        for early in self._early:
            self._filter.add(early)
        self._early.clear()
        are_new = [self._filter.add(number) for number in hashes]
        erased = (form for nonce in nonces for form in hidden_forms(self._salts, nonce))
        is_certain = all(are_new) and not any(self._filter.has(_hash(form)) for form in erased)
        if self._filter.is_full:
            self._read_again(unstored())
            self._early.update(hashes)
        return is_certain

    def stop(self) -> None:
        """Tell the thread to end soon."""
        self._is_stopped = True

    def abandon(self) -> None:
        """Do nothing more, in a forked process."""
        self._is_stopped = True

    def _read_again(self, unstored: Collection[str]) -> None:
        self._filter = None
        self._early = {_hash(nonce) for nonce in unstored}
        name = f"nonces of {self._store.meta.project_id}"
        start_thread(self, self._read, name=name)

    def _read(self) -> None:
        # Without the filter, events are looked up; the error comes to light there.
        with suppress(AttribError, duckdb.Error), self._store.cursor() as cursor:
            # One snapshot: an erasure changes both.
            cursor.begin()
            salts = read_salts(cursor)
            ((count,),) = cursor.execute("SELECT count(*) FROM raw_events").fetchall()
            read = _Filter(2 * count)
            batches = cursor.execute(_NONCES).to_arrow_reader(_ROWS)
            for batch in batches:
                if self._is_stopped:
                    return
                read.add_many(batch.column(0).to_numpy())
            self._salts = salts
            self._filter = read


class _Filter:
    """A Bloom filter of hashes of 64 bits."""

    def __init__(self, capacity: int) -> None:
        size = 1 << (_BITS * max(capacity, _SMALLEST) - 1).bit_length()
        self._left = size // _BITS
        self._mask = size - 1
        self._bits = bytearray(size // 8)

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def add(self, number: int) -> bool:
        """Add a hash; return whether it is new."""
        bits, is_new = self._bits, False
        position, step = number & _LOW, number >> 32 | 1
        for _ in range(_HASHES):
            place, bit = (position & self._mask) >> 3, 1 << (position & 7)
            if not bits[place] & bit:
                bits[place] |= bit
                is_new = True
            position += step
        self._left -= is_new
        return is_new

    def has(self, number: int) -> bool:
        """Return whether a hash may have been added."""
        position, step = number & _LOW, number >> 32 | 1
        return all(
            self._bits[(place & self._mask) >> 3] >> (place & 7) & 1
            for place in (position + count * step for count in range(_HASHES))
        )

    def add_many(self, numbers: NDArray[Any]) -> None:
        """Add many hashes."""
        bits = np.frombuffer(self._bits, dtype=np.uint8)
        position, step = numbers & np.uint64(_LOW), numbers >> np.uint64(32) | np.uint64(1)
        for _ in range(_HASHES):
            place = position & np.uint64(self._mask)
            bit = np.left_shift(np.uint8(1), (place & np.uint64(7)).astype(np.uint8))
            np.bitwise_or.at(bits, (place >> np.uint64(3)).astype(np.int64), bit)
            position = position + step
        self._left -= len(numbers)


def _hash(nonce: str) -> int:
    """Return what ``md5_number_lower`` of DuckDB returns."""
    digest = hashlib.md5(nonce.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "little")
