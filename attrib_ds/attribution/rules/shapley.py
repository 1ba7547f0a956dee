"""Shapley values of observed sets of nodes, which are weights of touchpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ibis

from attrib_ds.attribution import models
from attrib_ds.attribution.engines.engine import double
from attrib_ds.attribution.rules.weights import weight

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from attrib_ds.attribution.paths.paths import Paths


@weight.register(models.Shapley)
@weight.register(models.OrderedShapley)
def _by_node_and_place(
    _model: models.Shapley | models.OrderedShapley, _paths: Paths, touches: ir.Table
) -> Any:
    """Divide a conversion equally by node, and the part of a node equally by touchpoint.

    A set of nodes is worth the conversions of the paths that use nothing else, so its Harsanyi dividend is
    the conversions whose nodes are exactly this set; each node has an equal part of every dividend.
    """
    # The nodes up to this one and from this one on; not every engine counts distinct values over windows.
    of_event = touches.event_id
    up = ibis.dense_rank().over(ibis.window(group_by=of_event, order_by=touches.node_id))
    down = ibis.dense_rank().over(ibis.window(group_by=of_event, order_by=touches.node_id.desc()))
    distinct = up + down + 1
    times = touches.count().over(ibis.window(group_by=[touches.event_id, touches.node_id]))
    return double(1.0) / (distinct * times).nullif(0)
