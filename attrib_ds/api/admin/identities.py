"""Who is who: users merged and split by hand, and persons forgotten or told what is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from attrib_ds.project import Project


def merge_users(project: Project, id: str, *, user_id: str) -> int:
    """Merge a user into another one.

    Whatever belongs to the one belongs to the other from then on, and both ids answer with the other.
    :func:`split_user` undoes it.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The ``_id`` of the user who stays.
    user_id : str
        The ``_id`` of the user who is merged into it.

    Returns
    -------
    int
        Users that were merged: 1.

    Raises
    ------
    InvalidRequest
        If both are one user, or an id is not well-formed.
    NotFound
        If there is no such user.

    Examples
    --------
    >>> from attrib_ds import admin, get_user, sample_project, search_users
    >>> shop = sample_project()
    >>> anna, ann = search_users(shop, fields=[], limit=2)["_id"]
    >>> admin.merge_users(shop, anna, user_id=ann)
    1
    >>> get_user(shop, ann)["_id"] == anna
    True
    """
    return cast("int", project.send("merge_users", id=id, user_id=user_id).value)


def split_user(project: Project, id: str, *, user_id: str) -> int:
    """Part a user from the one it was merged into.

    It gets back what it had when it was merged; what came since stays where it is.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The ``_id`` of the user it was merged into.
    user_id : str
        The ``_id`` that was merged away, by hand or by an event that told that both are one.

    Returns
    -------
    int
        Users that were split: 1.

    Raises
    ------
    Conflict
        If nothing is left of what it had.
    NotFound
        If it was not merged into this user.

    Examples
    --------
    >>> from attrib_ds import admin, get_user, sample_project, search_users
    >>> shop = sample_project()
    >>> anna, ben = search_users(shop, fields=[], limit=2)["_id"]
    >>> _ = admin.merge_users(shop, anna, user_id=ben)
    >>> admin.split_user(shop, anna, user_id=ben)
    1
    >>> get_user(shop, ben)["_id"] == ben
    True
    """
    return cast("int", project.send("split_user", id=id, user_id=user_id).value)


def delete_user(project: Project, id: str, *, mode: str = "anonymise") -> int:
    """Forget a person.

    Only salted hashes of the user's ids, identities and nonces are kept. By them, what is sent or loaded
    again with a date before now is not stored; what comes later is about somebody new.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``; one that was merged away stands for the user it was merged into.
    mode : str, default "anonymise"
        ``anonymise``: interactions, events and metrics stay and are counted, without anything that tells
        whose they are. ``delete``: nothing of them stays.

    Returns
    -------
    int
        Users that were forgotten: 1.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed.
    NotFound
        If there is no such user.

    Examples
    --------
    >>> from attrib_ds import admin, sample_project, search_users
    >>> shop = sample_project()
    >>> anna = search_users(shop, fields=[], limit=1)["_id"].item()
    >>> admin.delete_user(shop, anna, mode="delete")
    1
    >>> anna in search_users(shop, fields=[], limit=1)["_id"].tolist()
    False
    """
    return cast("int", project.send("delete_user", id=id, mode=mode).value)


def export_user_data(project: Project, id: str) -> dict[str, Any]:
    """Return everything that is known of a person, and log that it was told.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    id : str
        The user's ``_id``; one that was merged away stands for the user it was merged into.

    Returns
    -------
    dict
        ``user``, ``identities``, ``mergedUserIds``, ``interactions``, ``hits``, ``events``, ``rawEvents`` and
        ``earlierMetrics`` (what updates have replaced), in the JSON of the service.

    Raises
    ------
    NotFound
        If there is no such user.

    Examples
    --------
    >>> from attrib_ds import admin, sample_project, search_users
    >>> shop = sample_project()
    >>> busiest = search_users(shop, fields=["eventCount"], sort="eventCount", descending=True, limit=1)
    >>> told = admin.export_user_data(shop, busiest["_id"].item())
    >>> len(told["events"]) == int(busiest["eventCount"].item())
    True
    """
    return cast("dict[str, Any]", project.send("export_user_data", id=id).value)
