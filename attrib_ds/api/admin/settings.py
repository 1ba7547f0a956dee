"""The settings of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.records.frames import to_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from attrib_ds.project import Project


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
        ``ingestKeys``, ``allowedOrigins``, ``excludedReferrers``, ``trafficFilters``, ``holdouts``,
        ``respectGpc`` and ``respectDnt``, as in :func:`attrib_ds.admin.update_settings`; ``holdoutKey``, the
        secret that decides from whom holdouts withhold, empty before the first one; ``currency`` and
        ``timezone``. The last three never change.

    Examples
    --------
    >>> import attrib_ds as at
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     bool(at.admin.get_settings(shop)["lenientOptionalFields"])
    False
    """
    return to_record(project.send("get_settings").read())


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
    traffic_filters: Sequence[str] | None = None,
    holdouts: Sequence[str] | None = None,
    respect_gpc: bool | None = None,
    respect_dnt: bool | None = None,
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
        send, so it may stand in a web page. None by default.
    allowed_origins : sequence of str, optional
        Origins, such as ``"https://shop.example"``: a served project then accepts events without a token and
        hits only from pages of these. Any by default.
    excluded_referrers : sequence of str, optional
        Hosts, with their subdomains, whose visitors return to the site: a hit with such a referrer opens no
        session, and is direct if it begins one. Payment providers are known; none further by default.
    traffic_filters : sequence of str, optional
        Filters of raw hits: ``"address:203.0.113.0/24"``, ``"referrer:spam.example"`` and
        ``"hostname:test.shop.example"`` with subdomains, ``"userAgent:Monitor"`` (contained, in any case).
        The first one that matches is the ``trafficFilterId`` of hits that arrive from then on, which searches
        leave out by default. None by default.
    holdouts : sequence of str, optional
        Holdouts that the service draws, as :func:`attrib_ds.experiments.create_holdout` writes them:
        ``"banner:0.1:2026-05-01/2026-06-30:spring"`` withholds the node ``spring`` from a tenth; either day
        may be empty. Without its entry, a holdout has ended. None by default.
    respect_gpc : bool, optional
        Whether a served project stores no lasting tracker id of a browser that sends Global Privacy Control:
        each such hit is a visitor of its own. True by default.
    respect_dnt : bool, optional
        The same for browsers that send Do Not Track. False by default.

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
    changes = {
        "lenient_optional_fields": lenient_optional_fields,
        "retention_duration_in_days": retention_duration_in_days,
        "pii_fields": pii_fields,
        "require_token_for_events": require_token_for_events,
        "ingest_keys": ingest_keys,
        "allowed_origins": allowed_origins,
        "excluded_referrers": excluded_referrers,
        "traffic_filters": traffic_filters,
        "holdouts": holdouts,
        "respect_gpc": respect_gpc,
        "respect_dnt": respect_dnt,
    }
    # None would clear a setting.
    given = {name: value for name, value in changes.items() if value is not None}
    return to_record(project.send("update_settings", **given).read())
