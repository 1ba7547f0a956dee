"""Embedded projects on the command line: make, list, load, mirror and export them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import attrib_ds as at
from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.errors import InvalidRequest, NotFound, ProjectInUse
from attrib_ds.project import home
from attrib_ds.transports.http.configuration import find_remote

if TYPE_CHECKING:
    import argparse

    from attrib_ds.filters import Predicate


def existing(project_id: str, *, operation: str | None = None) -> at.Project:
    """Open an embedded project that must be there.

    Parameters
    ----------
    project_id : str
        The project.
    operation : str, optional
        What a server that has it open can be asked to do instead.

    Returns
    -------
    Project
        To be closed.

    Raises
    ------
    NotFound
        If there is none.
    ProjectInUse
        If another process has it open.
    """
    file = home() / f"{project_id}.duckdb"
    if not file.exists():
        raise NotFound(f"there is no project {project_id!r}; `attrib-ds projects create` makes one: {file}")
    try:
        return at.connect(project_id, path=file)
    except ProjectInUse as error:
        raise in_use_elsewhere(project_id, operation) if operation else error from error


def in_use_elsewhere(project_id: str, operation: str) -> ProjectInUse:
    """Return the error for a project that another process holds, with the request its server takes."""
    declared = OPERATIONS[operation]
    path = BASES[declared.base] + declared.path.format(projectId=project_id)
    return ProjectInUse(
        f"another process has the project {project_id!r} open; stop it, or where it is `attrib-ds serve` ask "
        f"that: {declared.method} {path}, with a token of the scope admin"
    )


def create(options: argparse.Namespace) -> None:
    """Make an embedded project."""
    file = home() / f"{options.project}.duckdb"
    if file.exists():
        raise InvalidRequest(f"the project {options.project!r} is there already: {file}")
    made = at.connect(options.project, path=file, currency=options.currency, timezone=options.timezone)
    with made as project:
        print(f"Created {project!r}")


def list_all(_: argparse.Namespace) -> None:
    """Print the embedded projects."""
    for file in sorted(home().glob("*.duckdb")):
        print(f"{file.stem}\t{file.stat().st_size:,} bytes\t{file}")


def load(options: argparse.Namespace) -> None:
    """Load files into a project."""
    resources = ("nodes", "interactions", "hits", "events", "spend")
    given = {name: getattr(options, name) for name in resources if getattr(options, name) is not None}
    if not given:
        raise InvalidRequest(
            f"there is nothing to load; give one of {', '.join(f'--{name} FILE' for name in resources)}"
        )
    with at.connect(options.project) as project:
        report = at.load(project, **given)
    for kind, count in report.counts.items():
        print(f"{count:,} {kind.replace('_', ' ')}")
    if len(report.rejected):
        first = report.rejected.iloc[0]
        where = ""
        if options.rejected is not None:
            report.rejected.to_csv(options.rejected, index=False)
            where = f"; all are listed in {options.rejected}"
        print(
            f"attrib-ds: {len(report.rejected):,} rows did not fit, the first is row {first['row']} of "
            f"{first['table']} ({first['reason']}){where}",
            file=sys.stderr,
        )


def sync(options: argparse.Namespace) -> None:
    """Mirror a remote project into a file."""
    with (
        _source(options) as source,
        at.sync(
            source,
            options.to,
            since=options.since,
            until=options.until,
            hits=options.hits,
            personal=options.personal,
            currency=options.currency,
            timezone=options.timezone,
        ) as mirror,
    ):
        interactions = mirror.send("search_interactions", limit=0, filtered=None, bots=None).total
        users = mirror.send("search_users", fields=(), limit=0).total
    print(f"{options.to} holds {interactions:,} interactions and {users:,} users of {options.project}")


def _source(options: argparse.Namespace) -> at.Project:
    """Open the project of a service, or where none is known the embedded one, which must be there."""
    is_embedded = options.url is None and find_remote({"key": options.key}) is None
    if is_embedded:
        return existing(options.project)
    return at.connect(options.project, url=options.url, key=options.key)


def export(options: argparse.Namespace) -> None:
    """Write the users of a project to a file."""
    where = None if options.where is None else _filter(options.where)
    with existing(options.project) as project:
        file = at.export_users(
            project,
            options.file,
            columns=[key.strip() for key in options.columns.split(",")],
            where=where,
            audience=options.audience,
            format=options.format,
            delimiter=options.delimiter,
            encoding=options.encoding,
            sanitize_formulas=not options.keep_formulas,
            transformers=[_json(each, "--transform") for each in options.transform],
        )
    print(f"Wrote {file}")


def _filter(text: str) -> Predicate:
    try:
        return at.from_json(_json(text, "--where"), kind="user")
    except InvalidRequest as error:
        raise InvalidRequest(f"--where: {error.message.removeprefix('--where: ')}") from error


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"{option}: {text!r} is not JSON: {error}") from error
