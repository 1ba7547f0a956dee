"""Events that meet a predicate, which may compare their statistics."""

import ibis.expr.types as ir

from attrib_ds.attribution.paths.project_tables import amounts_of
from attrib_ds.filters import Predicate, ibis_form
from attrib_ds.filters.predicates import comparisons
from attrib_ds.filters.vocabulary import STATISTICS


def filtered_events(events: ir.Table, metrics: ir.Table, where: Predicate) -> ir.Table:
    """Keep the events that meet a predicate.

    Parameters
    ----------
    events, metrics : ibis.Table
        Tables of a project.
    where : Predicate
        On events; statistics are compared by their present amounts.
    """
    measured = sorted({leaf.field for leaf in comparisons(where) if leaf.field.startswith(STATISTICS)})
    for name in measured:
        amounts = amounts_of(metrics, [name.removeprefix(STATISTICS)])
        amounts = amounts.select(measured_event="event_id", **{name: "value"})
        events = events.left_join(amounts, events["_id"] == amounts.measured_event).drop("measured_event")
    return events.filter(ibis_form.to_ibis(where, events)).drop(*measured)
