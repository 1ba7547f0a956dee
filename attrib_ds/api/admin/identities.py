"""Identities: merge and split users, erase a person, and export a person's data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from attrib_ds.project import Project


def merge_users(project: Project, id: str, user_id: str) -> int:
    """Merge a user into another one.

    The records of the merged user then belong to the other one, and both ids return the other one.
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
    return cast("int", project.send("merge_users", id=id, user_id=user_id).value)


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
    return cast("int", project.send("split_user", id=id, user_id=user_id).value)


def delete_user(project: Project, id: str, *, mode: str = "anonymise") -> int:
    """Erase a person.

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
        ``anonymise``: keep interactions, events and metrics, without any identifying data, so that counts
        stay the same. ``delete``: delete them.

    Returns
    -------
    int
        Number of erased users: 1.

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
    >>> at.admin.delete_user(shop, anna, mode="delete")
    1
    >>> anna in at.search_users(shop, columns=[], limit=1)["_id"].tolist()
    False
    """
    return cast("int", project.send("delete_user", id=id, mode=mode).value)


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
    return cast("dict[str, Any]", project.send("export_user_data", id=id).value)
