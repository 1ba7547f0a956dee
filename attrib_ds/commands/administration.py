"""The commands that administer an embedded project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrib_ds.api.admin.upkeep import back_up, check
from attrib_ds.api.event_types import create_event_type, list_event_types
from attrib_ds.contract import BASES, OPERATIONS
from attrib_ds.errors import AttribError, InvalidRequest, NotFound, ProjectInUse
from attrib_ds.project import connect, home

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from attrib_ds.project import Project

#: Properties of an event type in a file, and the arguments they become.
_ARGUMENTS = {
    "reference": "reference",
    "name": "name",
    "fields": "fields",
    "metadata": "metadata",
    "phoneParsingConfig": "phone_parsing_config",
    "expirationPolicy": "expiration_policy",
}
#: What a file that was exported holds beside them.
_GIVEN_BY_THE_SERVICE = frozenset({"_id", "projectId", "createdAt", "updatedAt", "archivedAt"})


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> Iterator[argparse.ArgumentParser]:
    """Add the commands to those of the program, and return their parsers.

    Parameters
    ----------
    commands : action
        From ``ArgumentParser.add_subparsers``.

    Yields
    ------
    ArgumentParser
        Of each command about a project, for the options that all of them have.
    """
    event_types = commands.add_parser("event-types", help="what events of an embedded project may carry")
    actions = event_types.add_subparsers(title="actions", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="list the event types of a project")
    listed.add_argument("project", metavar="PROJECT")
    listed.add_argument("--archived", action="store_true", help="list the archived ones")
    listed.set_defaults(run=_list_event_types)
    yield listed
    created = actions.add_parser("create", help="make an event type from a JSON file")
    created.add_argument("project", metavar="PROJECT")
    created.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help=f"a JSON object with {', '.join(_ARGUMENTS)}; or a list of such",
    )
    created.set_defaults(run=_create_event_types)
    yield created

    copied = commands.add_parser("backup", help="copy a project into a file, while it is in use")
    copied.add_argument("project", metavar="PROJECT")
    copied.add_argument("file", type=Path, metavar="FILE", help="a new file")
    copied.set_defaults(run=_back_up)
    yield copied

    restored = commands.add_parser("restore", help="put a backup in the place of a project")
    restored.add_argument("project", metavar="PROJECT")
    restored.add_argument("file", type=Path, metavar="FILE", help="the backup; stays as it is")
    restored.add_argument("--replace", action="store_true", help="lose the project that is there")
    restored.set_defaults(run=_restore)
    yield restored

    checked = commands.add_parser("check", help="find what in a project contradicts itself")
    checked.add_argument("project", metavar="PROJECT")
    checked.set_defaults(run=_check)
    yield checked


def existing(project_id: str, *, operation: str | None = None) -> Project:
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
        return connect(project_id, path=file)
    except ProjectInUse as error:
        raise _elsewhere(project_id, operation) if operation else error from error


def _elsewhere(project_id: str, operation: str) -> ProjectInUse:
    """Say how to ask a server for what cannot be done here."""
    declared = OPERATIONS[operation]
    path = BASES[declared.base] + declared.path.format(projectId=project_id)
    return ProjectInUse(
        f"another process has the project {project_id!r} open; stop it, or where it is `attrib-ds serve` ask "
        f"that: {declared.method} {path}, with a token of the scope admin"
    )


def _list_event_types(options: argparse.Namespace) -> None:
    with existing(options.project) as project:
        found = list_event_types(project, archived=options.archived)
    for each in found.to_dict("records"):
        keys = " ".join(field["storageKey"] for field in json.loads(each["fields"]))
        print(f"{each['reference']}\t{each['name']}\t{keys}")


def _create_event_types(options: argparse.Namespace) -> None:
    try:
        told = json.loads(options.file.read_bytes())
    except ValueError as error:
        raise InvalidRequest(f"{options.file}: is not JSON: {error}") from error
    wanted = [_event_type(options.file, each) for each in (told if isinstance(told, list) else [told])]
    with existing(options.project) as project:
        for arguments in wanted:
            made = create_event_type(project, **arguments)
            print(f"Created the event type {made['reference']} with the id {made['_id']}")


def _event_type(file: Path, told: object) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise InvalidRequest(
            f"{file}: {told!r} is no event type; allowed: an object with a reference and a name"
        )
    for name in sorted(told.keys() - _ARGUMENTS.keys() - _GIVEN_BY_THE_SERVICE):
        raise InvalidRequest.choice(f"{file}: property", name, _ARGUMENTS)
    for name in ("reference", "name"):
        if name not in told:
            raise InvalidRequest(f"{file}: {name}: missing")
    return {argument: told[name] for name, argument in _ARGUMENTS.items() if told.get(name) is not None}


def _back_up(options: argparse.Namespace) -> None:
    with existing(options.project, operation="back_up_project") as project:
        back_up(project, options.file)
    print(f"Copied {options.project} to {options.file}: {options.file.stat().st_size:,} bytes")


def _restore(options: argparse.Namespace) -> None:
    # Imported late: a client never loads the service.
    from attrib_ds.service.upkeep.restoring import restore

    file = home() / f"{options.project}.duckdb"
    try:
        counts = restore(options.file, file, options.project, replace=options.replace)
    except ProjectInUse as error:
        if error.field == "source":
            raise
        raise _elsewhere(options.project, "restore_project") from error
    for table, count in counts.items():
        print(f"{count:,} {table.replace('_', ' ')}")
    print(f"Restored {options.project}: {file}")


def _check(options: argparse.Namespace) -> None:
    with existing(options.project, operation="check_project") as project:
        findings = check(project)
    for each in findings.to_dict("records"):
        print(f"{each['check']}\t{each['records']:,}\t{each['problem']}: {', '.join(each['examples'])}")
    if len(findings):
        raise AttribError(f"{len(findings)} checks of the project {options.project!r} fail")
    print(f"{options.project} is sound")
