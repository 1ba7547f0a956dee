"""The audit log, which tells who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.project import Project


def list_audit(
    project: Project,
    *,
    operation_name: str | None = None,
    account: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List who did what, the newest first.

    Of a served project every write by a token is written down. Of every project, also an embedded one,
    what hands out or takes away people's data is: exports, searches by SQL, erasures, merges and splits of
    users, and changed settings. A project that is open for reading only writes nothing down. Lines are never
    changed, and outlive a restoration of the project.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    operation_name : str, optional
        Only what was done by the operation of this name, such as ``"delete_user"``.
    account : str, optional
        Only what this client did.
    limit, offset : int, optional
        At most so many, and how many to skip; all by default.

    Returns
    -------
    DataFrame
        One row per line, the newest first: ``_id``, ``date``, ``account`` (the client id of a service
        account; missing for whoever has the file), ``operation``, ``subject`` (the record that it was done
        to, or the project) and ``details`` (JSON text without anything personal; of SQL without its values).
        ``frame.attrs["total"]`` counts all that match.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> from attrib_ds import admin, connect
    >>> with connect("my-shop", path=":memory:") as shop:
    ...     _ = admin.update_settings(shop, retention_duration_in_days=365)
    ...     admin.list_audit(shop)["details"].tolist()
    ['{"retentionDurationInDays":365}']
    """
    answer = project.send(
        "list_audit", operation_name=operation_name, account=account, limit=limit, offset=offset
    )
    frame = to_pandas(answer.read())
    frame.attrs["total"] = answer.total
    return frame
