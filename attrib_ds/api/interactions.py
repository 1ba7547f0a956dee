"""Interactions and their hits, as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from attrib_ds.api.search_results import search
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import read_rows, to_pandas, to_record
from attrib_ds.sending.delivery import Delivery, build_requests

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import pandas as pd

    from attrib_ds.filters import Predicate
    from attrib_ds.project import Project
    from attrib_ds.sending.journal import Outcome


@overload
def search_interactions(
    project: Project,
    *,
    where: Predicate | None = ...,
    nodes: Predicate | None = ...,
    since: datetime | str | None = ...,
    until: datetime | str | None = ...,
    columns: Sequence[str] | None = ...,
    sort: Mapping[str, int] | None = ...,
    limit: int | None = ...,
    offset: int = ...,
    filtered: bool | None = ...,
    bots: bool | None = ...,
    chunks: Literal[False] = ...,
    to: None = ...,
) -> pd.DataFrame: ...


@overload
def search_interactions(
    project: Project,
    *,
    where: Predicate | None = ...,
    nodes: Predicate | None = ...,
    since: datetime | str | None = ...,
    until: datetime | str | None = ...,
    columns: Sequence[str] | None = ...,
    sort: Mapping[str, int] | None = ...,
    limit: int | None = ...,
    offset: int = ...,
    filtered: bool | None = ...,
    bots: bool | None = ...,
    chunks: Literal[True],
    to: None = ...,
) -> Iterator[pd.DataFrame]: ...


@overload
def search_interactions(
    project: Project,
    *,
    where: Predicate | None = ...,
    nodes: Predicate | None = ...,
    since: datetime | str | None = ...,
    until: datetime | str | None = ...,
    columns: Sequence[str] | None = ...,
    sort: Mapping[str, int] | None = ...,
    limit: int | None = ...,
    offset: int = ...,
    filtered: bool | None = ...,
    bots: bool | None = ...,
    chunks: Literal[False] = ...,
    to: str | os.PathLike[str],
) -> Path: ...


def search_interactions(
    project: Project,
    *,
    where: Predicate | None = None,
    nodes: Predicate | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    columns: Sequence[str] | None = None,
    sort: Mapping[str, int] | None = None,
    limit: int | None = None,
    offset: int = 0,
    filtered: bool | None = False,
    bots: bool | None = False,
    chunks: bool = False,
    to: str | os.PathLike[str] | None = None,
) -> pd.DataFrame | Iterator[pd.DataFrame] | Path:
    """Search the interactions of a project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    where : Predicate, optional
        On interactions: ``interaction("geo.countryCode") == "FR"``.
    nodes : Predicate, optional
        On the traffic-source node: ``node("campaignName").contains("brand")``; a node that matches brings
        all nodes below it.
    since, until : datetime or str, optional
        Bounds of ``startDate``, both inclusive; without an offset they are UTC.
    columns : sequence of str, optional
        Properties to return; an object's name (``"geo"``) stands for all below it. ``_id`` always comes
        first. By default all but ``userData``, ``rawUserData`` and ``rawNodeData``.
    sort : mapping of str to int, optional
        Property to 1 (ascending) or -1 (descending), the first counts most; nulls are last and ties are
        broken by ``_id``. By default ``{"startDate": -1}``.
    limit : int, optional
        At most so many, 0 or more; all by default.
    offset : int, default 0
        How many to skip.
    filtered : bool or None, default False
        True: only traffic captured by a traffic filter; False: only the rest; None: both.
    bots : bool or None, default False
        True: only bots; False: only the rest; None: both.
    chunks : bool, default False
        Return the rows frame by frame, for what does not fit into memory.
    to : path-like, optional
        Write the rows to this Parquet file instead, in place of one that is there.

    Returns
    -------
    DataFrame
        One row per interaction; nested properties are dotted columns (``geo.city``). Columns and dtypes do
        not depend on the rows. ``frame.attrs["total"]`` counts all that match.
        With ``chunks`` an iterator of such frames, at least one, and with ``to`` the path of the file, which
        is there when all rows are in it.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> from attrib_ds import interaction, sample_project, search_interactions
    >>> shop = sample_project()
    >>> french = search_interactions(
    ...     shop, where=interaction("geo.countryCode") == "FR", columns=["geo.city"], limit=2
    ... )
    >>> list(french.columns)
    ['_id', 'geo.city']
    """
    arguments = {
        "where": where,
        "nodes": nodes,
        "since": since,
        "until": until,
        "columns": columns,
        "sort": sort,
        "limit": limit,
        "offset": offset,
        "filtered": filtered,
        "bots": bots,
    }
    return search(project, "search_interactions", arguments, chunks=chunks, to=to)


def get_interaction(project: Project, id: str) -> pd.Series[Any]:
    """Get one interaction with every property.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The interaction's ``_id``: 24 characters of ``0-9`` and ``a-f``.

    Returns
    -------
    Series
        One entry per property, ``userData`` included; named by the id. Bots and filtered traffic are found
        too.

    Raises
    ------
    InvalidRequest
        If the id is not well-formed.
    NotFound
        If there is no such interaction.

    Examples
    --------
    >>> from attrib_ds import get_interaction, sample_project, search_interactions
    >>> shop = sample_project()
    >>> newest = search_interactions(shop, limit=1)["_id"].item()
    >>> get_interaction(shop, newest)["_id"] == newest
    True
    """
    return to_record(project.send("get_interaction", id=id).read())


def list_hits(project: Project, first_hit_id: str) -> pd.DataFrame:
    """List the hits of a session, oldest first.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    first_hit_id : str
        The session's ``firstHitId`` (not its ``_id``).

    Returns
    -------
    DataFrame
        One row per hit, by ``serverDate``; empty for an id that no session begins with.

    Examples
    --------
    >>> from attrib_ds import list_hits, sample_project
    >>> list_hits(sample_project(), "unknown").shape[0]
    0
    """
    return to_pandas(project.send("list_hits", first_hit_id=first_hit_id).read())


def create_offline_interactions(
    project: Project, frame: pd.DataFrame, *, dry_run: bool = False, journal: str | Path | None = None
) -> pd.DataFrame:
    """Create offline interactions, such as calls and visits to a store, one per row.

    Sending the same rows again stores those with an ``externalId`` once. After a failure or an interrupt
    repeat the call; with a journal, only the rows that are not yet accepted are sent.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    frame : DataFrame
        ``date`` (datetime or str, until 24 hours ahead; without an offset it is UTC); who it was, as
        ``userData.email``, ``userData.phone``, ``userData.vendorUserId`` or another identity field of the
        project; where they came from, as ``nodeData.vendorId`` and ``nodeData.campaignId``,
        ``nodeData.campaignSlug`` or other properties of the advertiser. A missing cell is a property that is
        not given. With ``externalId``, a text that is unique in the integration, a row can be sent again and
        is stored once; without it every run stores every row.
    dry_run : bool, default False
        Only validate the rows, and send nothing. It cannot check that the integration and the identity fields
        exist. The journal is neither read nor written.
    journal : str or Path, optional
        File that records each row before it is sent, and its outcome afterwards. The same call with the same
        journal sends only the rows that are not yet accepted. ``externalId`` is required in each row then: a
        row that was in flight when a run ended is sent again, and stored once.

    Returns
    -------
    DataFrame
        One row per row of ``frame``, with its index: ``status`` (``created``, ``present`` or ``rejected``;
        in a dry run ``valid`` or ``rejected``), ``id`` of the interaction, ``error`` (str). If the service
        fails half-way, that row is ``failed`` and those after it are ``unsent``.

    Raises
    ------
    InvalidRequest
        If a column is missing or unknown, a row that goes into a journal has no ``externalId``, or the
        journal belongs to something else; nothing is stored then.
    Unavailable
        If another run uses the journal.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import admin, connect, create_offline_interactions
    >>> calls = pd.DataFrame(
    ...     {
    ...         "date": ["2025-01-31T12:00:00Z"],
    ...         "userData.email": ["anna@example.com"],
    ...         "nodeData.vendorId": ["phone"],
    ...         "externalId": ["call-17"],
    ...     }
    ... )
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = admin.create_integration(shop, "phone", name="Call centre")
    ...     [create_offline_interactions(shop, calls)["status"].item() for _ in range(2)]
    ['created', 'present']
    """
    rows = read_rows(frame, required=("date",), optional=("externalId",), objects=("userData", "nodeData"))
    arguments = [
        {
            "date": row.get("date"),
            "user_data": {name: _as_text(value) for name, value in row["userData"].items()},
            "node_data": row["nodeData"],
            "external_id": _as_text(row.get("externalId")),
        }
        for row in rows
    ]
    delivery = Delivery(
        project=project,
        function="create_offline_interactions",
        operation="create_offline_interaction",
        index=frame.index,
        requests=build_requests(project, "create_offline_interaction", arguments),
        key=lambda interaction: [interaction.nodeData.get("vendorId"), interaction.externalId],
    )

    def send(positions: Sequence[int]) -> list[Outcome]:
        answer = delivery.send_row(positions[0])
        stored = to_record(answer.read())
        return [("created" if answer.value else "present", stored["_id"], None)]

    if dry_run:
        return delivery.check()
    if journal is not None:
        _require_external_ids([row.get("externalId") for row in rows], frame.index.tolist())
    with delivery.recording(journal) as recording:
        return delivery.send(send, recording)


def _require_external_ids(external_ids: Sequence[Any], labels: Sequence[Hashable]) -> None:
    missing = [label for label, id in zip(labels, external_ids, strict=True) if id is None]
    if missing:
        raise InvalidRequest(
            f"journal: externalId is required in each row, and missing in {len(missing):,} (first: row "
            f"{missing[0]!r}); without it a run cannot tell whether an earlier one stored the "
            "row; leave journal out to send such rows",
            field="journal",
            details=[{"row": label, "problem": "externalId is required"} for label in missing],
        )


def _as_text(value: Any) -> Any:
    """Return a whole number as text: files hold ids of digits without saying that they are text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
