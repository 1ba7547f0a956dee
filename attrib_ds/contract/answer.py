"""What the service answers, the same from both transports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["page", "array", "record", "id", "modified", "uuid", "file", "token", "counts"]


@dataclass(frozen=True)
class Answering:
    """Tell the shape of an operation's answer.

    Parameters
    ----------
    kind : str
        ``page`` of records with counts, ``array`` of records, one ``record``, the ``id`` of what was
        created, the number of records ``modified``, a ``uuid``, a ``file``, a ``token``, or ``counts`` of
        loaded records.
    resource : str, optional
        Name of the records in :data:`attrib_ds.schema.RESOURCES`.
    echo : bool, default True
        Whether a page repeats the offset and limit that were asked for.
    """

    kind: Kind
    resource: str | None = None
    echo: bool = True


@dataclass(frozen=True)
class Answer:
    """Hold what came back for one request.

    Parameters
    ----------
    table : Table, optional
        The records, flat, in the Arrow schema of the resource; one row where one record was asked for.
    value : object, optional
        What is no record: an id, a number of modified records, the bytes of a file, a token, counts.
    total : int, optional
        All matching records, on a page.
    offset : int, default 0
        Records skipped, on a page.
    limit : int, optional
        Most records asked for, on a page.
    """

    table: pa.Table | None = None
    value: object = None
    total: int | None = None
    offset: int = 0
    limit: int | None = None
