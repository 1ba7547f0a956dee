"""Identifiers in the formats of the service: ids of 24 hexadecimal digits and UUIDs of version 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from sample_data.columns import Objects, Seconds


def object_ids(seconds: Seconds, process: str) -> Objects:
    """Return ids of 4 bytes of time, 5 bytes of a process and a counter.

    Parameters
    ----------
    seconds : array of int64
        Instants of creation since 1970; ids are sorted if these are.
    process : str
        10 hexadecimal digits; sets of ids with different ones are disjoint.

    Returns
    -------
    array of str
        One id of 24 hexadecimal digits per row.

    Examples
    --------
    >>> object_ids(np.array([0, 255]), "0123456789").tolist()
    ['000000000123456789000000', '000000ff0123456789000001']
    """
    texts = [f"{second:08x}{process}{row:06x}" for row, second in enumerate(seconds.tolist())]
    return np.array(texts, dtype=object)


def uuids(seconds: Seconds, draws: npt.NDArray[np.int64], process: str) -> Objects:
    """Return UUIDs of version 7 (RFC 9562, section 5.7).

    Parameters
    ----------
    seconds : array of int64
        Instants since 1970, encoded at the beginning of the ids.
    draws : array of int64
        Random numbers in [0, 4096), which distinguish ids of the same second.
    process : str
        15 hexadecimal digits at the end of all ids; constant because random digits compress badly.

    Returns
    -------
    array of str
        One UUID per row, in lower case.

    Examples
    --------
    >>> uuids(np.array([1]), np.array([0xABC]), "000000000000001").tolist()
    ['00000000-03e8-7abc-8000-000000000001']
    """
    texts = [
        f"{(stamp := f'{second * 1000:012x}')[:8]}-{stamp[8:]}-7{draw:03x}-8{process[:3]}-{process[3:]}"
        for second, draw in zip(seconds.tolist(), draws.tolist(), strict=True)
    ]
    return np.array(texts, dtype=object)
