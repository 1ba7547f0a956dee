"""Administration of a project: its settings, keys, users, rates and backups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from attrib_ds.api.campaigns import delete_outlay
from attrib_ds.api.events import (
    archive_event_type,
    replay_events,
    restore_event_type,
    update_event_type,
    validate_events,
)
from attrib_ds.api.results import given, page
from attrib_ds.api.users import create_audience, delete_audience, get_audience, list_audiences
from attrib_ds.contract.identifiers import coded
from attrib_ds.errors import AttribError, InvalidRequest, ServiceFailure
from attrib_ds.keys import FULL_ACCESS, KeyFile, make_key_pair, new_key_file
from attrib_ds.project import Project, takes_project
from attrib_ds.records.frames import Frame, read_frame, read_rows, to_pandas, to_record

__all__ = [
    "archive_event_type", "back_up", "check", "compact", "create_audience", "create_integration",
    "create_key", "delete_audience", "delete_outlay", "delete_user", "export_user_data", "get_audience",
    "get_settings", "list_audiences", "list_audit", "list_keys", "list_rates", "merge_users",
    "replay_events", "restore_event_type", "revoke_key", "set_rates", "split_user", "update_event_type",
    "update_settings", "validate_events",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


@takes_project
def merge_users(project: Project, id: str, user_id: str) -> int:
    """Merge a user into another one.

    The records of the merged user then belong to the other one, and both ids lead to the other one.
    :func:`split_user` undoes the merge.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The ``_id`` of the user to keep.
    user_id : str
        The ``_id`` of the user to merge into it.

    Returns
    -------
    int
        Number of merged users: 1.

    Raises
    ------
    InvalidRequest
        If both ids are of one user, or an id is not well-formed.
    NotFound
        If there is no such user.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> anna, ann = at.search_users(shop, columns=[], limit=2)["_id"]
    >>> at.admin.merge_users(shop, anna, ann)
    1
    >>> at.get_user(shop, ann)["_id"] == anna
    True
    """
    return int(project.send("merge_users", id=id, user_id=user_id).value)


@takes_project
def split_user(project: Project, id: str, user_id: str) -> int:
    """Split a user from the user it was merged into.

    The records from before the merge are returned to it; later ones stay.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The ``_id`` of the user it was merged into.
    user_id : str
        The ``_id`` of the merged user, whether it was merged by hand or by an event with both identities.

    Returns
    -------
    int
        Number of split users: 1.

    Raises
    ------
    Conflict
        If none of its records are left.
    NotFound
        If ``user_id`` was not merged into this user.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> anna, ben = at.search_users(shop, columns=[], limit=2)["_id"]
    >>> _ = at.admin.merge_users(shop, anna, ben)
    >>> at.admin.split_user(shop, anna, ben)
    1
    >>> at.get_user(shop, ben)["_id"] == ben
    True
    """
    return int(project.send("split_user", id=id, user_id=user_id).value)


@takes_project
def delete_user(project: Project, id: str, *, mode: str = "anonymise") -> pd.Series[Any]:
    """Erase a person: from the tables at once, and from the files of the project within a day.

    The blocks of the files keep what was deleted until the service rewrites them. It does so by itself within
    a day while it runs, and at once with :func:`attrib_ds.admin.compact`. Backups, mirrors and exports are
    files of their own, which you delete.

    The service keeps only salted hashes of the user's ids, identities and nonces. With these it recognises
    records with an earlier date that are sent or loaded again, and does not store them. Later records belong
    to a new user.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``; that of a merged user stands for the user it was merged into.
    mode : str, default "anonymise"
        ``anonymise``: keep interactions, events and metrics, so that counts stay the same, and remove what
        identifies. Of events: the fields of users, those declared personal, e-mail addresses, phones,
        locations and messages, and what the event type does not declare, except numbers and yes or no. Other
        declared fields stay, so declare a ``string`` in which people write freely, and a ``url`` with
        queries, as personal. Of interactions and hits: ids of the person and the tracker, referrers, queries
        and fragments of addresses, texts of user agents, coordinates and postcodes. Paths of pages, browser,
        device, city, region, country and network stay. ``delete``: delete them.

    Returns
    -------
    Series
        ``modifiedCount``, the number of erased users: 1; and ``inFilesUntil`` (Timestamp), by when a service
        that runs has removed their data from the files, NaT for a project in memory.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    NotFound
        If there is no such user.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> anna = at.search_users(shop, columns=[], limit=1)["_id"].item()
    >>> int(at.admin.delete_user(shop, anna, mode="delete")["modifiedCount"])
    1
    >>> anna in at.search_users(shop, columns=[], limit=1)["_id"].tolist()
    False
    """
    answer: Any = project.send("delete_user", id=id, mode=mode).value
    until = pd.to_datetime(answer.get("inFilesUntil"), utc=True)
    return pd.Series({"modifiedCount": int(answer["modifiedCount"]), "inFilesUntil": until}, dtype=object)


@takes_project
def export_user_data(project: Project, id: str) -> dict[str, Any]:
    """Return all data of a person, and log the export in the audit log.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``; that of a merged user stands for the user it was merged into.

    Returns
    -------
    dict
        ``user``, ``identities``, ``mergedUserIds``, ``interactions``, ``hits``, ``events``, ``rawEvents`` and
        ``earlierMetrics`` (values that updates replaced), as the service's JSON.

    Raises
    ------
    NotFound
        If there is no such user.

    Examples
    --------
    >>> import attrib_ds as at
    >>> shop = at.sample_project()
    >>> busiest = at.search_users(shop, columns=["eventCount"], sort="-eventCount", limit=1)
    >>> data = at.admin.export_user_data(shop, busiest["_id"].item())
    >>> len(data["events"]) == int(busiest["eventCount"].item())
    True
    """
    return dict(project.send("export_user_data", id=id).value)


@takes_project
def create_integration(
    project: Project, vendor_id: str, *, name: str, currency: str | None = None, channel: str | None = None
) -> str:
    """Create an integration for custom campaigns.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`. A key needs the scope ``campaigns:write``.
    vendor_id : str
        Its name in other arguments and in records: 3 to 64 lower-case letters and digits, with single hyphens
        between them; unique in the project and never changed.
    name : str
        Display name.
    currency : str, optional
        Currency of its outlays: a code of ISO 4217 or a sign of one currency; by default that of the project.
        Never changed.
    channel : str, optional
        Channel of its node and of the campaigns below, such as ``"Offline"``. A node that was loaded with a
        channel keeps it.

    Returns
    -------
    str
        The integration's id, which is also the id of its node. If a node of type ``integration`` with this
        ``vendorId`` was loaded before, that is its node; name and currency are those given here.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    Conflict
        If an integration with this ``vendor_id`` was created before.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.create_integration(shop, "post", name="Post", channel="Offline")
    ...     _ = at.create_campaign(shop, "post", "catalogue", name="Catalogue")
    ...     at.list_nodes(shop)[["type", "name", "channel"]]
              type       name  channel
    0  integration       Post  Offline
    1     campaign  Catalogue  Offline
    """
    currency = coded(currency)
    return str(project.send("create_integration", **given(locals())).value)


@takes_project
def set_rates(project: Project, rates: Frame) -> int:
    """Set exchange rates, each with the first date it applies to.

    Amounts of events in these currencies are converted to the currency of the project at the latest rate on
    or before their date. A rate of the same currency and date is replaced, or removed if the new one is
    missing; other rates stay.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    rates : DataFrame
        ``currency`` (a code of ISO 4217 or a sign of one currency), ``date`` (date, datetime or str in UTC;
        the first date of the rate) and ``rate`` (value of one unit in the project's currency, above 0;
        missing to remove the rate of that date).

    Returns
    -------
    int
        Number of rates that were added, changed or removed.

    Raises
    ------
    InvalidRequest
        If a column or cell is missing or not allowed, or a currency is that of the project.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> krone = pd.DataFrame({"currency": ["NOK"], "date": ["2025-01-01"], "rate": [0.085]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     [at.admin.set_rates(shop, krone) for _ in range(2)]
    [1, 0]
    """
    frame = read_frame("rates", rates)
    rows = read_rows(frame, required=("currency", "date", "rate"), argument="rates")
    for row in rows:
        row |= {"rate": row.get("rate"), "currency": coded(row.get("currency"))}
    return int(project.send("set_rates", rates=rows).value)


@takes_project
def list_rates(
    project: Project, *, currency: str | None = None, limit: int | None = None, offset: int = 0
) -> pd.DataFrame:
    """List exchange rates.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    currency : str, optional
        Only the rates of this currency.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per rate, by currency, then by date: ``currency`` (str), ``date`` and ``rate`` (float64).
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> krone = pd.DataFrame({"currency": "NOK", "date": ["2025-01-01", "2025-02-01"], "rate": [0.085, 0.09]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.set_rates(shop, krone)
    ...     at.admin.list_rates(shop)["rate"].tolist()
    [0.085, 0.09]
    """
    return page(project.send("list_rates", currency=coded(currency), limit=limit, offset=offset))


@takes_project
def get_settings(project: Project) -> pd.Series[Any]:
    """Get the settings of a project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Series
        ``lenientOptionalFields``, ``retentionDurationInDays``, ``piiFields``, ``requireTokenForEvents``,
        ``ingestKeys``, ``allowedOrigins``, ``excludedReferrers``, ``domains``,
        ``trafficFilters``, ``anonymousNodesPerDay``, ``respectGpc``, ``respectDnt``, ``visitorOfTheDay`` and
        ``anonymousIdentification``, as in :func:`attrib_ds.admin.update_settings`; ``holdoutKey``, the secret
        that decides from whom holdouts withhold, empty before the first one; ``currency`` and ``timezone``.
        The last three never change.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     bool(at.admin.get_settings(shop)["lenientOptionalFields"])
    False
    """
    return to_record(project.send("get_settings").read())


@takes_project
def update_settings(
    project: Project,
    *,
    lenient_optional_fields: bool | None = None,
    retention_duration_in_days: int | None = None,
    pii_fields: Sequence[str] | None = None,
    require_token_for_events: bool | None = None,
    ingest_keys: Sequence[str] | None = None,
    allowed_origins: Sequence[str] | None = None,
    excluded_referrers: Sequence[str] | None = None,
    domains: Sequence[str] | None = None,
    traffic_filters: Sequence[str] | None = None,
    anonymous_nodes_per_day: int | None = None,
    respect_gpc: bool | None = None,
    respect_dnt: bool | None = None,
    visitor_of_the_day: bool | None = None,
    anonymous_identification: bool | None = None,
) -> pd.Series[Any]:
    """Change settings of a project; omitted settings keep their values.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    lenient_optional_fields : bool, optional
        Whether to process an event with an invalid value in an optional field; the value is stored as
        invalid. By default (False) the event is trashed.
    retention_duration_in_days : int, optional
        Number of days after an event for which its personal values are kept, at most 36,525; 0, the default,
        for no limit. Over HTTP, null does the same.
    pii_fields : sequence of str, optional
        Storage keys of the fields whose values are personal; none by default.
    require_token_for_events : bool, optional
        Whether a served project accepts events only with a token; False by default.
    ingest_keys : sequence of str, optional
        Keys for events without a token and for hits: a served project then accepts them only with one of
        these in the header ``X-Ingest-Key``, or in the ``data-key`` of the tracking script. A key can only
        send, so a web page may contain it. None by default.
    allowed_origins : sequence of str, optional
        Origins, such as ``"https://shop.example"``: a served project then accepts events without a token and
        hits only from pages of these. Any by default.
    excluded_referrers : sequence of str, optional
        Hosts, with their subdomains, from which visitors return to the site. A hit with such a referrer does
        not open a session; if it begins one, it is direct. Payment providers are included; by default none
        are added.
    domains : sequence of str, optional
        Domains of the site, with their subdomains, such as ``["shop.example", "checkout.example"]``: visitors
        who come from one of them do not open a session, and links between them can carry the tracker id. The
        registrable domain of the page is included; by default none are added.
    traffic_filters : sequence of str, optional
        Filters of raw hits: ``"address:203.0.113.0/24"``, ``"referrer:spam.example"`` and
        ``"hostname:test.shop.example"`` with subdomains, ``"userAgent:Monitor"`` (contained, in any case).
        The first one that matches is the ``trafficFilterId`` of hits that arrive from then on, which searches
        leave out by default. None by default.
    anonymous_nodes_per_day : int, optional
        Maximum number of traffic-source nodes that collected hits create per day (UTC), up to 1,000,000;
        10,000 by default. Hits of other sources are credited to the node ``(other)`` below the nearest
        existing node.
    respect_gpc : bool, optional
        Whether a served project respects Global Privacy Control: it stores no lasting tracker id, and each
        hit of such a browser is a separate visitor. True by default.
    respect_dnt : bool, optional
        The same for browsers that send Do Not Track. False by default.
    visitor_of_the_day : bool, optional
        Whether a served project recognises browsers without a stored id, until the end of the day (in the
        project's time zone), by a hash of address and user agent with a secret of the day. True by default.
        If False, each page that such a browser loads is a separate visitor.
    anonymous_identification : bool, optional
        Whether events without a token identify users of a served project, as events with a token do. By
        default (False), they do not if an event with a token has identified the user with this email, phone
        or vendor's id: they belong to a separate user until an event with a token or ``merge_users`` joins
        both. They never replace the value of a field.

    Returns
    -------
    Series
        All settings, as in :func:`attrib_ds.admin.get_settings`.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     int(at.admin.update_settings(shop, retention_duration_in_days=365)["retentionDurationInDays"])
    365
    """
    # None would clear a setting.
    changes = {name: value for name, value in given(locals()).items() if value is not None}
    return to_record(project.send("update_settings", **changes).read())


@takes_project
def create_key(
    project: Project,
    path: str | Path,
    *,
    scopes: Sequence[str] = (FULL_ACCESS,),
    expires_at: datetime | str | None = None,
) -> pd.Series[Any]:
    """Create a service account for this project only, and write its key file.

    The key pair is made on this machine. Only its public half is sent to the service, so that the file is the
    only copy of the private key. If the file cannot be written, the key is revoked.

    The key of an embedded project is for clients of ``attrib-ds serve`` in the folder of the project's file.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`. A remote project needs a key with the scope ``admin``.
    path : str or Path
        The new file, which only its owner can read. An existing file is an error.
    scopes : sequence of str, default ("full_access",)
        What the key may do, which must be part of what the key of a remote project may do:
        ``"full_access"``, or some of ``"interactions:read"``, ``"interactions:write"``, ``"events:read"``,
        ``"events:write"``, ``"users:read"``, ``"users:write"``, ``"users:export"``, ``"users:sql"``,
        ``"event-types:read"``, ``"event-types:write"``, ``"campaigns:read"``, ``"campaigns:write"``,
        ``"privacy:write"`` and ``"admin"``.
    expires_at : datetime or str, optional
        First instant at which the key is refused, in the future and with a time zone. By default the key does
        not expire.

    Returns
    -------
    Series
        ``_id`` (id of the key), ``clientId`` and ``serviceAccountEmail`` (of the account), ``scopes``,
        ``createdAt``, ``expiresAt`` and ``revokedAt``. The private key is only in the file.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, or the file exists; the message names it.
    Forbidden
        If the key of this project lacks one of the scopes.
    NotSupported
        If the project is in memory or read-only.
    Unavailable
        If the file or the accounts cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import attrib_ds as at
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with at.connect("my-shop", path=f"{home}/my-shop.duckdb") as shop:
    ...         key = at.admin.create_key(shop, f"{home}/key.json", scopes=["interactions:read"])
    ...         at.admin.list_keys(shop)["_id"].tolist() == [key["_id"]]
    True
    """
    with new_key_file(Path(path).expanduser(), argument="path") as write:
        pair = make_key_pair()
        created = project.send("create_key", public_key=pair.public, scopes=scopes, expires_at=expires_at)
        key = to_record(created.read())
        try:
            if key["_id"] != pair.key_id:
                raise ServiceFailure("the service returned another key than the one sent")
            write(
                KeyFile(_text(key, "clientId"), _text(key, "serviceAccountEmail"), pair.key_id, pair.private)
            )
        except BaseException as error:
            _withdraw(project, pair.key_id, error)
            raise
    return key


@takes_project
def list_keys(project: Project) -> pd.DataFrame:
    """List the service account keys that open only this project, oldest first.

    Keys that also open other projects are listed by ``attrib-ds keys list`` on the server's machine.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`. A remote project needs a key with the scope ``admin``.

    Returns
    -------
    DataFrame
        One row per key, including expired and revoked ones: ``_id``, ``clientId`` and ``serviceAccountEmail``
        of its account, ``scopes``, ``createdAt``, ``expiresAt`` and ``revokedAt`` (missing if it does not
        expire, or is not revoked).

    Raises
    ------
    NotSupported
        If the project is in memory.

    Examples
    --------
    >>> import tempfile
    >>> import attrib_ds as at
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with at.connect("my-shop", path=f"{home}/my-shop.duckdb") as shop:
    ...         len(at.admin.list_keys(shop))
    0
    """
    return to_pandas(project.send("list_keys").read())


@takes_project
def revoke_key(project: Project, key_id: str) -> int:
    """Revoke a key and its tokens at once.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`. A remote project needs a key with the scope ``admin``.
    key_id : str
        ``_id`` in :func:`attrib_ds.admin.list_keys`, and ``privateKeyId`` in the key file.

    Returns
    -------
    int
        1, or 0 if it was revoked before.

    Raises
    ------
    NotFound
        If the project has no such key, or the key also opens other projects.
    NotSupported
        If the project is in memory or read-only.

    Examples
    --------
    >>> import tempfile
    >>> import attrib_ds as at
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with at.connect("my-shop", path=f"{home}/my-shop.duckdb") as shop:
    ...         key = at.admin.create_key(shop, f"{home}/key.json")
    ...         at.admin.revoke_key(shop, key["_id"]), at.admin.revoke_key(shop, key["_id"])
    (1, 0)
    """
    return int(project.send("revoke_key", key_id=key_id).value)


def _text(key: pd.Series[Any], name: str) -> str:
    value = key[name]
    if not isinstance(value, str) or not value:
        raise ServiceFailure(f"the service answered a key without {name}")
    return value


def _withdraw(project: Project, key_id: str, cause: BaseException) -> None:
    """Revoke a key whose file could not be written."""
    try:
        project.send("revoke_key", key_id=key_id)
    except AttribError as error:
        # Nobody has its private key.
        cause.add_note(f"the key {key_id} could not be revoked either: {error}")


@takes_project
def list_audit(
    project: Project,
    *,
    operation_name: str | None = None,
    account: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the entries of the audit log, newest first.

    The log of a served project has every write by a token. The log of every project, embedded or served, has
    exports, searches by SQL, erasures, merges and splits of users, changes of settings, and keys created and
    revoked through it. A project that is open read-only logs nothing. Entries never change and survive a
    restore of the project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    operation_name : str, optional
        Only entries of this operation, such as ``"delete_user"``.
    account : str, optional
        Only entries of this client id.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per entry, newest first: ``_id``, ``date``, ``account`` (client id of the service account;
        missing for direct use of the file), ``operation``, ``subject`` (the record concerned, or the project)
        and ``details`` (JSON text without personal data; SQL without its literals).
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     _ = at.admin.update_settings(shop, retention_duration_in_days=365)
    ...     at.admin.list_audit(shop)["details"].tolist()
    ['{"retentionDurationInDays":365}']
    """
    return page(project.send("list_audit", **given(locals())))


@takes_project
def check(project: Project, *, repair: bool = False) -> pd.DataFrame:
    """Check a project's consistency, and repair what can be computed from its hits.

    Ids are unique and references exist; each received event is pending, processed or trashed; users,
    locations and counts agree with the records they are computed from; JSON is valid; and every block of the
    file that is not in memory is readable.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    repair : bool, default False
        Whether to repair a project that is not consistent. The service copies the project's file first,
        into a file beside it. It then removes copies of hits and interactions, and computes sessions,
        counts of hits and ``userLifetimeIndex`` again. It does all of it or nothing.

    Returns
    -------
    DataFrame
        One row per failed check, none for a consistent project: ``check`` (str), ``problem`` (str),
        ``records`` (Int64, number of records concerned) and ``examples`` (lists of up to five ids). A
        repair adds a row before them for each step: ``check`` is ``backup``, with the name of the copy, or
        ``repaired``. Rows after these still fail, and have to be corrected by hand or from a backup.

    Raises
    ------
    Forbidden
        If the account is not an administrator of the remote project.
    NotSupported
        If a project that is in memory or read-only is to be repaired.
    Unavailable
        If the file cannot be copied before a repair.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     at.admin.check(shop).empty
    True
    """
    return to_pandas(project.send("repair_project" if repair else "check_project").read())


@takes_project
def compact(project: Project) -> pd.Series[Any]:
    """Rewrite the files of a project without the data of erased persons.

    The service does this within a day after :func:`attrib_ds.admin.delete_user`, while it runs. Requests wait
    meanwhile; a gigabyte takes about 20 seconds, and as much free room on the disk. After a crash the project
    has its former file or the new one.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    Series
        ``bytesBefore`` and ``bytesAfter`` (int64): size of the project's file.

    Raises
    ------
    Forbidden
        If the account is not an administrator of the remote project.
    NotSupported
        If the project is in memory or read-only.
    Unavailable
        If the disk has no room for a copy, or requests do not end within 30 seconds.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with at.connect("my-shop", path=f"{folder}/shop.duckdb") as shop:
    ...         at.admin.compact(shop).index.tolist()
    ['bytesBefore', 'bytesAfter']
    """
    sizes: Any = project.send("compact_project").value
    return pd.Series(sizes, dtype="int64")


@takes_project
def back_up(project: Project, path: str | Path) -> Path:
    """Copy a snapshot of a project into a new file.

    Reads and writes continue during the copy. The file appears once it is complete. It is a project file
    itself, for ``attrib-ds restore`` and :func:`attrib_ds.connect`.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    path : str or Path
        A new file in an existing folder.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidRequest
        If the file exists, or its folder does not.
    Unavailable
        If the file cannot be written.
    Forbidden
        If the account is not an administrator of the remote project.

    Examples
    --------
    >>> import tempfile
    >>> import attrib_ds as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with at.connect("my-shop", path=":memory:") as shop:
    ...         _ = at.create_event_type(shop, "order", name="Order")
    ...         copy = at.admin.back_up(shop, f"{folder}/copy.duckdb")
    ...     with at.connect("my-shop", path=copy) as shop:
    ...         at.list_event_types(shop)["reference"].tolist()
    ['order']
    """
    file = Path(path).expanduser()
    if file.exists():
        raise InvalidRequest(f"path: {str(file)!r} exists already; give the name of a new file")
    if not file.parent.is_dir():
        raise InvalidRequest(f"path: the folder {str(file.parent)!r} does not exist")
    project.send("back_up_project").value.save(file, private=True)
    return file
