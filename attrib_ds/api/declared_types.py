"""Gives users and events the columns that the event types of their project declare."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from attrib_ds.errors import Forbidden, NotFound, NotSupported
from attrib_ds.records.declared_fields import DeclaredFields, declared_fields
from attrib_ds.records.typed_events import typed_events
from attrib_ds.records.typed_users import needs_declarations, typed_users

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.project import Project


def with_event_columns(project: Project, events: pa.Table) -> pa.Table:
    """Return events with a typed column per declared field, state and statistic."""
    return typed_events(events, _declared(project))


def user_columns_reader(project: Project) -> Callable[[pa.Table], pa.Table]:
    """Return a function that gives users typed columns; it requests the event types once, if at all."""

    @cache
    def declared() -> DeclaredFields:
        return _declared(project)

    def read(users: pa.Table) -> pa.Table:
        return typed_users(users, declared()) if needs_declarations(users.column_names) else users

    return read


def _declared(project: Project) -> DeclaredFields:
    """Return what the event types declare, archived ones included; nothing if a key may not read them."""
    try:
        # Without archived ones, archiving an event type would take columns away.
        listed = [project.send("list_event_types", archived=archived).read() for archived in (False, True)]
    except (Forbidden, NotFound, NotSupported):
        return DeclaredFields()
    return declared_fields(pa.concat_tables(listed))
