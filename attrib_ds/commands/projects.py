"""Commands that create, list, load, mirror and export projects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrib_ds as at
from attrib_ds.commands.output import show, show_error, show_row
from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.errors import InvalidRequest, NotFound, ProjectInUse
from attrib_ds.project import home
from attrib_ds.records.spreadsheets import write_csv
from attrib_ds.transports.http.configuration import find_remote

if TYPE_CHECKING:
    import argparse

    from attrib_ds.filters import Predicate


def open_existing(project_id: str, *, operation: str | None = None) -> at.Project:
    """Open an embedded project that must already exist.

    Parameters
    ----------
    project_id : str
        Id of the project.
    operation : str, optional
        Operation to request from the server instead, if a server has the project open.

    Returns
    -------
    Project
        The caller closes it.

    Raises
    ------
    NotFound
        If the project does not exist.
    ProjectInUse
        If another process has it open.
    """
    file = home() / f"{project_id}.duckdb"
    if not file.exists():
        raise NotFound(
            f"there is no project {project_id!r} ({file}); create it with `attrib-ds projects create`"
        )
    try:
        return at.connect(project_id, path=file)
    except ProjectInUse as error:
        raise project_in_use(project_id, operation) if operation else error from error


def project_in_use(project_id: str, operation: str) -> ProjectInUse:
    """Return the error for a project that another process has open, with the request to its server."""
    declaration = OPERATIONS[operation]
    path = BASES[declaration.base] + declaration.path.format(projectId=project_id)
    return ProjectInUse(
        f"another process has the project {project_id!r} open; stop it, or if it is `attrib-ds serve`, send "
        f"it {declaration.method} {path} with a token of the scope admin"
    )


def create(options: argparse.Namespace) -> None:
    """Create an embedded project."""
    file = home() / f"{options.project}.duckdb"
    if file.exists():
        raise InvalidRequest(f"the project {options.project!r} already exists: {file}")
    with at.connect(
        options.project, path=file, currency=options.currency, timezone=options.timezone
    ) as project:
        show(f"Created {project!r}")


def list_all(_: argparse.Namespace) -> None:
    """Print the embedded projects."""
    for file in sorted(home().glob("*.duckdb")):
        show_row(file.stem, f"{file.stat().st_size:,} bytes", str(file))


def load(options: argparse.Namespace) -> None:
    """Load files into a project."""
    resources = ("nodes", "interactions", "hits", "events", "spend")
    files = {name: getattr(options, name) for name in resources if getattr(options, name) is not None}
    page_views = {
        "--access-log": options.access_log,
        "--ga4-hits": options.ga4_hits,
        "--snowplow-hits": options.snowplow_hits,
    }
    given = [name for name, paths in {"--hits": options.hits, **page_views}.items() if paths is not None]
    if len(given) > 1:
        raise InvalidRequest(f"{' and '.join(given)} are all hits; load one after the other")
    if options.access_log is not None:
        if options.site is None:
            raise InvalidRequest("--access-log needs the origin of its pages: --site https://shop.example")
        files["hits"] = at.AccessLog(options.access_log, site=options.site)
    elif options.ga4_hits is not None:
        files["hits"] = at.GA4Hits(options.ga4_hits)
    elif options.snowplow_hits is not None:
        files["hits"] = at.SnowplowHits(options.snowplow_hits)
    if not files:
        names = (*(f"--{name}" for name in resources), *page_views)
        raise InvalidRequest(
            f"there is nothing to load; pass one of {', '.join(f'{name} FILE' for name in names)}"
        )
    with at.connect(options.project) as project:
        report = at.load(project, **files, geo=options.geo, asn=options.asn)
    for kind, count in report.counts.items():
        show(f"{count:,} {kind.replace('_', ' ')}")
    if len(report.rejected):
        first = report.rejected.iloc[0]
        listing = ""
        if options.rejected is not None:
            write_csv(report.rejected, options.rejected)
            listing = f"; all are listed in {options.rejected}"
        show_error(
            f"{len(report.rejected):,} rows were rejected, the first is row {first['row']} of "
            f"{first['table']} ({first['reason']}){listing}",
        )


def sync(options: argparse.Namespace) -> None:
    """Mirror a remote project to a file."""
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
        users = mirror.send("search_users", columns=(), limit=0).total
    show(f"{options.to} has {interactions:,} interactions and {users:,} users of {options.project}")


def _source(options: argparse.Namespace) -> at.Project:
    """Open the project of a service, or the existing embedded project if no service is configured."""
    is_embedded = options.url is None and find_remote({"key": options.key}) is None
    if is_embedded:
        return open_existing(options.project)
    return at.connect(options.project, url=options.url, key=options.key)


def export(options: argparse.Namespace) -> None:
    """Write the users of a project to a file."""
    where = None if options.where is None else _filter(options.where)
    with open_existing(options.project) as project:
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
            transformers=[_json(transformer, "--transform") for transformer in options.transform],
        )
    show(f"Wrote {file}")


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
