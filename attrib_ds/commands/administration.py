"""Administration of an embedded project: event types, integrations, backup, restore and check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrib_ds as at
from attrib_ds.commands.projects import existing, in_use_elsewhere
from attrib_ds.errors import AttribError, InvalidRequest, ProjectInUse
from attrib_ds.project import home
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

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


def list_event_types(options: argparse.Namespace) -> None:
    """Print the event types of a project."""
    with existing(options.project) as project:
        found = at.list_event_types(project, archived=options.archived)
    for each in found.to_dict("records"):
        keys = " ".join(field["storageKey"] for field in json.loads(each["fields"]))
        print(f"{each['reference']}\t{each['name']}\t{keys}")


def create_event_types(options: argparse.Namespace) -> None:
    """Make event types from a JSON file."""
    try:
        declared = json.loads(options.file.read_bytes())
    except ValueError as error:
        raise InvalidRequest(f"{options.file}: is not JSON: {error}") from error
    wanted = [
        _event_type(options.file, each) for each in (declared if isinstance(declared, list) else [declared])
    ]
    with existing(options.project) as project:
        for arguments in wanted:
            made = at.create_event_type(project, **arguments)
            print(f"Created the event type {made['reference']} with the id {made['_id']}")


def _event_type(file: Path, declared: object) -> dict[str, Any]:
    if not isinstance(declared, dict):
        raise InvalidRequest(
            f"{file}: {declared!r} is no event type; allowed: an object with a reference and a name"
        )
    for name in sorted(declared.keys() - _ARGUMENTS.keys() - _GIVEN_BY_THE_SERVICE):
        raise InvalidRequest.choice(f"{file}: property", name, _ARGUMENTS)
    for name in ("reference", "name"):
        if name not in declared:
            raise InvalidRequest(f"{file}: {name}: missing")
    return {
        argument: declared[name] for name, argument in _ARGUMENTS.items() if declared.get(name) is not None
    }


def create_integration(options: argparse.Namespace) -> None:
    """Make an integration, which campaigns belong to."""
    with existing(options.project) as project:
        made = at.admin.create_integration(
            project,
            options.vendor_id,
            name=options.name,
            currency=options.currency,
            channel=options.channel,
        )
    print(f"Created the integration {options.vendor_id} with the id {made}")


def list_integrations(options: argparse.Namespace) -> None:
    """Print the integrations of a project."""
    with existing(options.project) as project:
        integrations = to_pandas(project.send("list_integrations").read())
    for integration in integrations.to_dict("records"):
        print("\t".join(integration[name] for name in ("vendorId", "name", "currency", "_id")))


def back_up(options: argparse.Namespace) -> None:
    """Copy a project into a file."""
    with existing(options.project, operation="back_up_project") as project:
        at.admin.back_up(project, options.file)
    print(f"Copied {options.project} to {options.file}: {options.file.stat().st_size:,} bytes")


def restore(options: argparse.Namespace) -> None:
    """Replace a project by its backup."""
    # The client loads the service only where it needs it.
    from attrib_ds.service.upkeep.restoring import restore as restore_project

    file = home() / f"{options.project}.duckdb"
    try:
        counts = restore_project(options.file, file, options.project, replace=options.replace)
    except ProjectInUse as error:
        if error.field == "source":
            raise
        raise in_use_elsewhere(options.project, "restore_project") from error
    for table, count in counts.items():
        print(f"{count:,} {table.replace('_', ' ')}")
    print(f"Restored {options.project}: {file}")


def check(options: argparse.Namespace) -> None:
    """Print what is inconsistent in a project."""
    with existing(options.project, operation="check_project") as project:
        findings = at.admin.check(project)
    for each in findings.to_dict("records"):
        print(f"{each['check']}\t{each['records']:,}\t{each['problem']}: {', '.join(each['examples'])}")
    if len(findings):
        raise AttribError(f"{len(findings)} checks of the project {options.project!r} fail")
    print(f"{options.project} is sound")
