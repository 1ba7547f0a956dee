"""Commands that create, load, mirror, export and administer projects."""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import attrib_ds as at
from attrib_ds.commands.cli import show, show_error, show_row
from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.display import counted
from attrib_ds.errors import AttribError, InvalidRequest, NotFound, ProjectInUse, closest
from attrib_ds.filters import Predicate
from attrib_ds.project import home
from attrib_ds.records import frames, written_files
from attrib_ds.transports.http.configuration import find_remote

#: Arguments of ``create_event_type`` by property in a file.
_ARGUMENTS = {
    name: argument
    for name, argument in OPERATIONS["create_event_type"].arguments.items()
    if name != "projectId"
}
#: Further properties of exported event types, which the service sets.
_SET_BY_SERVICE = frozenset({"_id", "projectId", "createdAt", "updatedAt", "archivedAt"})


def list_event_types(options: argparse.Namespace) -> None:
    """Print the event types of a project."""
    with _administered(options) as project:
        event_types = at.list_event_types(project, archived=options.archived)
    for event_type in event_types.to_dict("records"):
        keys = " ".join(field["storageKey"] for field in json.loads(event_type["fields"]))
        show_row(event_type["reference"], event_type["name"], keys)


def create_event_types(options: argparse.Namespace) -> None:
    """Create event types from a JSON file."""
    try:
        content = json.loads(options.file.read_bytes())
    except ValueError as error:
        raise InvalidRequest(f"{options.file}: is not JSON: {error}") from error
    definitions = content if isinstance(content, list) else [content]
    event_types = [_event_type(options.file, definition) for definition in definitions]
    with _administered(options) as project:
        for arguments in event_types:
            created = at.create_event_type(project, **arguments)
            show(f"Created the event type {created['reference']} with the id {created['_id']}")


def _event_type(file: Path, definition: object) -> dict[str, Any]:
    if not isinstance(definition, dict):
        raise InvalidRequest(
            f"{file}: {definition!r} is not an event type; allowed: an object with a reference and a name"
        )
    for name in sorted(definition.keys() - _ARGUMENTS.keys() - _SET_BY_SERVICE):
        raise InvalidRequest.choice(f"{file}: property", name, _ARGUMENTS)
    for name in ("reference", "name"):
        if name not in definition:
            raise InvalidRequest(f"{file}: {name} is required")
    return {
        argument: definition[name]
        for name, argument in _ARGUMENTS.items()
        if definition.get(name) is not None
    }


def create_integration(options: argparse.Namespace) -> None:
    """Create an integration, which campaigns belong to."""
    with _administered(options) as project:
        integration_id = at.admin.create_integration(
            project, options.vendor_id, name=options.name, currency=options.currency, channel=options.channel
        )
    show(f"Created the integration {options.vendor_id} with the id {integration_id}")


def list_integrations(options: argparse.Namespace) -> None:
    """Print the integrations of a project."""
    with _administered(options) as project:
        integrations = frames.to_pandas(project.send("list_integrations").read())
    for integration in integrations.to_dict("records"):
        show_row(*(integration[name] for name in ("vendorId", "name", "currency", "_id")))


#: What ``settings`` shows beside the settings.
_CREATED_WITH: Final = ("currency", "timezone")


def settings(options: argparse.Namespace) -> None:
    """Print the settings of a project, after changing some of them."""
    changes = dict(_setting(text) for text in options.set)
    operation = "update_settings" if changes else "get_settings"
    with _administered(options) as project:
        (record,) = project.send(operation, **changes).read().to_pylist()
    for name, value in record.items():
        show_row(name, json.dumps(value, ensure_ascii=False))


def _setting(text: str) -> tuple[str, Any]:
    """Read one change as an argument of ``update_settings``; null clears a setting."""
    arguments = OPERATIONS["update_settings"].arguments
    name, _, value = text.partition("=")
    if name in _CREATED_WITH:
        raise InvalidRequest(
            f"--set: {name!r} is chosen when the project is made, with attrib-ds projects create --{name}, "
            "and cannot be changed"
        )
    allowed = sorted(arguments.keys() - {"projectId"})
    if name not in allowed:
        raise InvalidRequest(
            f"--set: {name!r} is not allowed{closest(name, allowed)}; allowed: {', '.join(allowed)}"
        )
    try:
        return arguments[name], json.loads(value)
    except ValueError as error:
        raise InvalidRequest(
            f"--set: {value!r} is not JSON; expected a value such as true, 365 or "
            "'[\"https://shop.example\"]'"
        ) from error


def back_up(options: argparse.Namespace) -> None:
    """Copy a project to a file."""
    with _administered(options) as project:
        at.admin.back_up(project, options.file)
    show(f"Copied {options.project} to {options.file}: {options.file.stat().st_size:,} bytes")


def compact(options: argparse.Namespace) -> None:
    """Rewrite the files of a project without the data of erased persons."""
    with _administered(options) as project:
        before, after = at.admin.compact(project)
    show(f"Compacted {options.project}: {before:,} bytes before, {after:,} after")


def restore(options: argparse.Namespace) -> None:
    """Restore a project from a backup."""
    # The client imports the service only inside functions.
    from attrib_ds.service.backup import restore as restore_project

    file = home() / f"{options.project}.duckdb"
    try:
        counts = restore_project(options.file, file, options.project, replace=options.replace)
    except ProjectInUse as error:
        if error.field == "source":
            raise
        raise _served(options.project) from error
    for table, count in counts.items():
        show(f"{count:,} {table.replace('_', ' ')}")
    show(f"Restored {options.project}: {file}")


def check(options: argparse.Namespace) -> None:
    """Print the inconsistencies of a project, and what was done about them."""
    with _administered(options) as project:
        findings = at.admin.check(project, repair=options.repair)
    for finding in findings.to_dict("records"):
        examples = ", ".join(finding["examples"])
        show_row(finding["check"], f"{finding['records']:,}", f"{finding['problem']}: {examples}")
    failed = (~findings["check"].isin(["backup", "repaired"])).sum()
    if failed:
        cannot = " and cannot be repaired" if options.repair else ""
        raise AttribError(f"{failed} checks of the project {options.project!r} failed{cannot}")
    show(f"{options.project} is consistent")


def open_existing(project_id: str) -> at.Project:
    """Open an embedded project that must already exist.

    Parameters
    ----------
    project_id : str
        Id of the project.

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
    return at.connect(project_id, path=file)


def _administered(options: argparse.Namespace) -> at.Project:
    """Open the project of a command: through its server if ``--url`` names one, else its file."""
    if options.url is not None:
        return at.connect(options.project, url=options.url, key=options.key)
    try:
        return open_existing(options.project)
    except ProjectInUse as error:
        raise ProjectInUse(
            f"another process has the project {options.project!r} open. If it is `attrib-ds serve`, repeat "
            "the command with --url ADDRESS --key KEY_FILE, and it goes through the server; otherwise stop it"
        ) from error


def _served(project_id: str) -> ProjectInUse:
    """Return the error for restoring a project that another process has open."""
    declaration = OPERATIONS["restore_project"]
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
        files["hits"] = at.hits.AccessLog(options.access_log, site=options.site)
    elif options.ga4_hits is not None:
        files["hits"] = at.hits.GA4(options.ga4_hits)
    elif options.snowplow_hits is not None:
        files["hits"] = at.hits.Snowplow(options.snowplow_hits)
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
            written_files.write_csv(report.rejected, options.rejected)
            listing = f"; all are listed in {options.rejected}"
        show_error(
            f"rejected {counted(len(report.rejected), 'rows')}, the first is row {first['row']} of "
            f"{first['table']} ({first['reason']}){listing}"
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
    counts = counted(interactions or 0, "interactions"), counted(users or 0, "users")
    show(f"{options.to} has {' and '.join(counts)} of {options.project}")


def _source(options: argparse.Namespace) -> at.Project:
    """Open the project of a service, or the existing embedded project if no service is configured."""
    is_embedded = options.url is None and find_remote({"key": options.key}) is None
    if is_embedded:
        return open_existing(options.project)
    return at.connect(options.project, url=options.url, key=options.key)


def export(options: argparse.Namespace) -> None:
    """Write the users of a project to a file."""
    where = None if options.where is None else _filter(options.where)
    with _administered(options) as project:
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
