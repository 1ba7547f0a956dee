"""Commands that administer an embedded project: event types, settings, backup, restore and others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrib_ds as at
from attrib_ds.commands.output import show, show_row
from attrib_ds.commands.projects import open_existing, project_in_use
from attrib_ds.contract import OPERATIONS
from attrib_ds.errors import AttribError, InvalidRequest, ProjectInUse
from attrib_ds.project import home
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

#: Arguments of ``create_event_type`` by property in a file.
_ARGUMENTS = {
    "reference": "reference",
    "name": "name",
    "fields": "fields",
    "metadata": "metadata",
    "phoneParsingConfig": "phone_parsing_config",
    "expirationPolicy": "expiration_policy",
}
#: Further properties of exported event types, which the service sets.
_SET_BY_SERVICE = frozenset({"_id", "projectId", "createdAt", "updatedAt", "archivedAt"})


def list_event_types(options: argparse.Namespace) -> None:
    """Print the event types of a project."""
    with open_existing(options.project) as project:
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
    with open_existing(options.project) as project:
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
    with open_existing(options.project) as project:
        integration_id = at.admin.create_integration(
            project,
            options.vendor_id,
            name=options.name,
            currency=options.currency,
            channel=options.channel,
        )
    show(f"Created the integration {options.vendor_id} with the id {integration_id}")


def list_integrations(options: argparse.Namespace) -> None:
    """Print the integrations of a project."""
    with open_existing(options.project) as project:
        integrations = to_pandas(project.send("list_integrations").read())
    for integration in integrations.to_dict("records"):
        show_row(*(integration[name] for name in ("vendorId", "name", "currency", "_id")))


def settings(options: argparse.Namespace) -> None:
    """Print the settings of a project, after changing some of them."""
    changes = dict(_setting(text) for text in options.set)
    operation = "update_settings" if changes else "get_settings"
    with open_existing(options.project, operation=operation) as project:
        (record,) = project.send(operation, **changes).read().to_pylist()
    for name, value in record.items():
        show_row(name, json.dumps(value, ensure_ascii=False))


def _setting(text: str) -> tuple[str, Any]:
    """Read one change as an argument of ``update_settings``; null clears a setting."""
    arguments = OPERATIONS["update_settings"].arguments
    name, _, value = text.partition("=")
    if name == "projectId" or name not in arguments:
        raise InvalidRequest.choice("--set", name, arguments.keys() - {"projectId"})
    try:
        return arguments[name], json.loads(value)
    except ValueError as error:
        raise InvalidRequest(
            f"--set: {value!r} is not JSON; expected a value such as true, 365 or "
            "'[\"https://shop.example\"]'"
        ) from error


def back_up(options: argparse.Namespace) -> None:
    """Copy a project to a file."""
    with open_existing(options.project, operation="back_up_project") as project:
        at.admin.back_up(project, options.file)
    show(f"Copied {options.project} to {options.file}: {options.file.stat().st_size:,} bytes")


def restore(options: argparse.Namespace) -> None:
    """Restore a project from a backup."""
    # The client imports the service only inside functions.
    from attrib_ds.service.upkeep.restoring import restore as restore_project

    file = home() / f"{options.project}.duckdb"
    try:
        counts = restore_project(options.file, file, options.project, replace=options.replace)
    except ProjectInUse as error:
        if error.field == "source":
            raise
        raise project_in_use(options.project, "restore_project") from error
    for table, count in counts.items():
        show(f"{count:,} {table.replace('_', ' ')}")
    show(f"Restored {options.project}: {file}")


def check(options: argparse.Namespace) -> None:
    """Print the inconsistencies of a project."""
    with open_existing(options.project, operation="check_project") as project:
        findings = at.admin.check(project)
    for finding in findings.to_dict("records"):
        examples = ", ".join(finding["examples"])
        show_row(finding["check"], f"{finding['records']:,}", f"{finding['problem']}: {examples}")
    if len(findings):
        raise AttribError(f"{len(findings)} checks of the project {options.project!r} failed")
    show(f"{options.project} is consistent")
