"""Event types, which say what events carry, as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.records.frames import to_pandas, to_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from attrib_ds.project import Project


def list_event_types(
    project: Project,
    *,
    search: str | None = None,
    archived: bool | None = None,
    storage_key: str | None = None,
    reference: str | None = None,
    sort: Mapping[str, int] | str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the event types of a project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    search : str, optional
        Only event types whose name or reference contains this text, in any case.
    archived : bool, optional
        True: only archived event types; otherwise only the others.
    storage_key : str, optional
        Only event types with a field of this storage key.
    reference : str, optional
        Only the event type of this reference.
    sort : mapping of str to int, or str, optional
        ``{"createdAt": -1, "name": 1}``, or the same as ``"-createdAt,name"``; by default ``reference``.
    limit, offset : int, optional
        At most so many, and how many to skip; all by default.

    Returns
    -------
    DataFrame
        One row per event type: ``_id``, ``createdAt``, ``updatedAt``, ``archivedAt``, ``projectId``,
        ``reference``, ``name``, ``fields``, ``metadata`` and ``phoneParsingConfig`` (JSON text), and
        ``expirationPolicy.retentionDurationInDays`` and ``expirationPolicy.piiFields`` (missing where the
        project's settings count).
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> from attrib_ds import connect, create_event_type, list_event_types
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="order", name="Order")
    ...     list_event_types(shop)["reference"].tolist()
    ['order']
    """
    answer = project.send(
        "list_event_types",
        search=search,
        archived=archived,
        storage_key=storage_key,
        reference=reference,
        sort=sort,
        limit=limit,
        offset=offset,
    )
    frame = to_pandas(answer.read())
    frame.attrs["total"] = answer.total
    return frame


def get_event_type(project: Project, id: str) -> pd.Series[Any]:
    """Get one event type by its reference.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The event type's ``reference`` (not its ``_id``).

    Returns
    -------
    Series
        One entry per property, as in :func:`attrib_ds.list_event_types`; archived ones are found too.

    Raises
    ------
    NotFound
        If there is no such event type.

    Examples
    --------
    >>> from attrib_ds import connect, create_event_type, get_event_type
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="order", name="Order")
    ...     get_event_type(shop, "order")["name"]
    'Order'
    """
    return to_record(project.send("get_event_type", id=id).read())


def create_event_type(
    project: Project,
    *,
    reference: str,
    name: str,
    fields: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    phone_parsing_config: Sequence[Mapping[str, Any]] = (),
    expiration_policy: Mapping[str, Any] | None = None,
) -> pd.Series[Any]:
    """Create an event type; its events are accepted at once.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        1 to 64 lower-case letters and digits with single ``-`` or ``_`` between them, unique in the project,
        archived event types included.
    name : str
        Display name.
    fields : sequence of mapping
        One per field: ``type`` (``string``, ``message``, ``email``, ``phone``, ``location``, ``number``,
        ``boolean``, ``date``, ``url``, ``country``, ``state``, ``currency``), ``entity`` (``user`` or
        ``event``), ``storageKey``, and if need be ``ingestionKey`` (the key it is read from, by default the
        storage key; None: never read, only set by updates), ``optional``, ``discriminant``, ``isPii`` and
        ``isMostProbableLocation`` (all False by default). Of entity ``event``, ``state`` is a state, and
        ``number`` and ``currency`` are statistics.
    metadata : mapping, optional
        Kept as it is; empty by default.
    phone_parsing_config : sequence of mapping
        Countries to read national phone numbers in: ``{"order": 1, "countryCode": "FR"}``.
    expiration_policy : mapping, optional
        ``{"retentionDurationInDays": 365, "piiFields": ["email"]}``: the days after an event in which its
        personal values are kept (0: for ever), and the storage keys of those; what is not given is as in
        :func:`attrib_ds.admin.update_settings`.

    Returns
    -------
    Series
        The event type, as in :func:`attrib_ds.list_event_types`.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.
    Conflict
        If the reference is taken.

    Examples
    --------
    >>> from attrib_ds import connect, create_event_type
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     order = create_event_type(
    ...         shop,
    ...         reference="order",
    ...         name="Order",
    ...         fields=[
    ...             {"type": "email", "entity": "user", "storageKey": "email", "discriminant": True},
    ...             {"type": "currency", "entity": "event", "storageKey": "turnover"},
    ...             {"type": "state", "entity": "event", "storageKey": "confirmed", "ingestionKey": None},
    ...         ],
    ...     )
    >>> order["reference"]
    'order'
    """
    answer = project.send(
        "create_event_type",
        reference=reference,
        name=name,
        fields=fields,
        metadata=metadata,
        phone_parsing_config=phone_parsing_config,
        expiration_policy=expiration_policy,
    )
    return to_record(answer.read())


def update_event_type(
    project: Project,
    id: str,
    *,
    name: str | None = None,
    fields: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    phone_parsing_config: Sequence[Mapping[str, Any]] | None = None,
    expiration_policy: Mapping[str, Any] | None = None,
) -> pd.Series[Any]:
    """Change an event type; what is not given stays.

    Events that are there are not checked again. A state or statistic that is new is not known to them.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The event type's ``reference`` (not its ``_id``).
    name : str, optional
        Its new display name.
    fields : sequence of mapping
        As for :func:`attrib_ds.create_event_type`. One with a storage key that the event type has takes the
        place of that field, with the same ``type`` and ``entity``; the other ones are added.
    metadata : mapping, optional
        Kept in place of the one before.
    phone_parsing_config : sequence of mapping, optional
        Countries to read national phone numbers in, in place of those before.
    expiration_policy : mapping, optional
        As for :func:`attrib_ds.create_event_type`, in place of the one before; ``{}`` for what the project
        chose. Events that are there keep theirs.

    Returns
    -------
    Series
        The event type, as in :func:`attrib_ds.list_event_types`.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.
    NotFound
        If there is no such event type.
    Conflict
        If a storage key would change its type or entity.

    Examples
    --------
    >>> import json
    >>> from attrib_ds import connect, create_event_type, update_event_type
    >>> paid = {"type": "state", "entity": "event", "storageKey": "paid", "ingestionKey": None}
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="order", name="Order")
    ...     order = update_event_type(shop, "order", fields=[paid])
    >>> [field["storageKey"] for field in json.loads(order["fields"])]
    ['paid']
    """
    answer = project.send(
        "update_event_type",
        id=id,
        name=name,
        fields=fields,
        metadata=metadata,
        phone_parsing_config=phone_parsing_config,
        expiration_policy=expiration_policy,
    )
    return to_record(answer.read())


def archive_event_type(project: Project, id: str) -> pd.Series[Any]:
    """Archive an event type, whose events are trashed from now on.

    Events that are there stay, and can be updated.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The event type's ``reference`` (not its ``_id``).

    Returns
    -------
    Series
        The event type, as in :func:`attrib_ds.list_event_types`.

    Raises
    ------
    NotFound
        If there is no such event type.

    Examples
    --------
    >>> from attrib_ds import archive_event_type, connect, create_event_type, list_event_types
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="order", name="Order")
    ...     _ = archive_event_type(shop, "order")
    ...     [len(list_event_types(shop, archived=archived)) for archived in (False, True)]
    [0, 1]
    """
    return to_record(project.send("archive_event_type", id=id).read())


def restore_event_type(project: Project, id: str) -> pd.Series[Any]:
    """Restore an archived event type, whose events are taken again.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The event type's ``reference`` (not its ``_id``).

    Returns
    -------
    Series
        The event type, as in :func:`attrib_ds.list_event_types`.

    Raises
    ------
    NotFound
        If there is no such event type.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import archive_event_type, connect, create_event_type, restore_event_type
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = create_event_type(shop, reference="order", name="Order")
    ...     _ = archive_event_type(shop, "order")
    ...     pd.isna(restore_event_type(shop, "order")["archivedAt"])
    True
    """
    return to_record(project.send("restore_event_type", id=id).read())
