"""Event types: the fields, states and statistics that events of each kind have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from attrib_ds.api.results import page
from attrib_ds.project import Project
from attrib_ds.records.frames import to_record


def list_event_types(
    project: Project,
    *,
    search: str | None = None,
    archived: bool | None = None,
    storage_key: str | None = None,
    reference: str | None = None,
    sort: str | Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the event types of a project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    search : str, optional
        Only event types whose name or reference contains this text; case does not matter.
    archived : bool, optional
        True: only archived event types; by default only the others.
    storage_key : str, optional
        Only event types with a field of this storage key.
    reference : str, optional
        Only the event type of this reference.
    sort : str or sequence of str, optional
        Columns to sort by, with ``-`` in front for descending: ``["-createdAt", "name"]``. By default
        ``"reference"``.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per event type: ``_id``, ``createdAt``, ``updatedAt``, ``archivedAt``, ``projectId``,
        ``reference``, ``name``, ``fields``, ``metadata`` and ``phoneParsingConfig`` (JSON text), and
        ``expirationPolicy.retentionDurationInDays`` and ``expirationPolicy.piiFields`` (missing where the
        project's settings apply). ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     at.list_event_types(shop)["reference"].tolist()
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
    return page(answer)


def get_event_type(project: Project, reference: str) -> pd.Series[Any]:
    """Get one event type by its reference.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        The event type's ``reference``, not its ``_id``.

    Returns
    -------
    Series
        One entry per property, as in :func:`attrib_ds.list_event_types`; also of archived event types.

    Raises
    ------
    NotFound
        If there is no such event type.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     at.get_event_type(shop, "order")["name"]
    'Order'
    """
    return to_record(project.send("get_event_type", reference=reference).read())


def create_event_type(
    project: Project,
    reference: str,
    *,
    name: str,
    fields: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    phone_parsing_config: Sequence[Mapping[str, Any]] = (),
    expiration_policy: Mapping[str, Any] | None = None,
) -> pd.Series[Any]:
    """Create an event type; the service accepts its events at once.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        Its name in events and filters: 1 to 64 lower-case letters and digits with single ``-`` or ``_``
        between them; unique in the project, archived event types included.
    name : str
        Display name.
    fields : sequence of mapping
        One per field: ``type`` (``string``, ``message``, ``email``, ``phone``, ``location``, ``number``,
        ``boolean``, ``date``, ``url``, ``country``, ``state``, ``currency``), ``entity`` (``user`` or
        ``event``), ``storageKey``, and optionally ``ingestionKey`` (the key in the data of events, by default
        the storage key; None: only updates set the field), ``optional``, ``discriminant``, ``isPii`` and
        ``isMostProbableLocation`` (all False by default). Fields of entity ``event`` and type ``state`` are
        states; those of type ``number`` and ``currency`` are statistics.
    metadata : mapping, optional
        Your own properties of the event type; empty by default.
    phone_parsing_config : sequence of mapping
        Countries whose national phone numbers are recognised: ``{"order": 1, "countryCode": "FR"}``.
    expiration_policy : mapping, optional
        ``{"retentionDurationInDays": 365, "piiFields": ["email"]}``: the number of days after an event for
        which its personal values are kept (0: no limit), and their storage keys. An omitted property comes
        from :func:`attrib_ds.admin.update_settings`.

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
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     order = at.create_event_type(
    ...         shop,
    ...         "order",
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
    reference: str,
    *,
    name: str | None = None,
    fields: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    phone_parsing_config: Sequence[Mapping[str, Any]] | None = None,
    expiration_policy: Mapping[str, Any] | None = None,
) -> pd.Series[Any]:
    """Change an event type; omitted properties keep their values.

    Stored events are not validated again, and have no value of a new state or statistic.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        The event type's ``reference``, not its ``_id``.
    name : str, optional
        New display name.
    fields : sequence of mapping
        As for :func:`attrib_ds.create_event_type`. A field with an existing storage key replaces that field,
        and must have the same ``type`` and ``entity``; the others are added.
    metadata : mapping, optional
        Replaces the previous metadata.
    phone_parsing_config : sequence of mapping, optional
        As for :func:`attrib_ds.create_event_type`; replaces the previous list.
    expiration_policy : mapping, optional
        As for :func:`attrib_ds.create_event_type`; replaces the previous policy. ``{}`` stands for the
        project's settings. Stored events keep their policy.

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
    >>> import attrib_ds as at
    >>> paid = {"type": "state", "entity": "event", "storageKey": "paid", "ingestionKey": None}
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     order = at.admin.update_event_type(shop, "order", fields=[paid])
    >>> [field["storageKey"] for field in json.loads(order["fields"])]
    ['paid']
    """
    answer = project.send(
        "update_event_type",
        reference=reference,
        name=name,
        fields=fields,
        metadata=metadata,
        phone_parsing_config=phone_parsing_config,
        expiration_policy=expiration_policy,
    )
    return to_record(answer.read())


def archive_event_type(project: Project, reference: str) -> pd.Series[Any]:
    """Archive an event type: the service trashes its new events.

    Stored events stay and can be updated.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        The event type's ``reference``, not its ``_id``.

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
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     _ = at.admin.archive_event_type(shop, "order")
    ...     [len(at.list_event_types(shop, archived=archived)) for archived in (False, True)]
    [0, 1]
    """
    return to_record(project.send("archive_event_type", reference=reference).read())


def restore_event_type(project: Project, reference: str) -> pd.Series[Any]:
    """Restore an archived event type: the service accepts its events again.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    reference : str
        The event type's ``reference``, not its ``_id``.

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
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.create_event_type(shop, "order", name="Order")
    ...     _ = at.admin.archive_event_type(shop, "order")
    ...     pd.isna(at.admin.restore_event_type(shop, "order")["archivedAt"])
    True
    """
    return to_record(project.send("restore_event_type", reference=reference).read())
