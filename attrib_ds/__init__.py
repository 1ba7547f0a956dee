"""Marketing attribution for analysts: interactions, events and credited nodes as DataFrames."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrib_ds import errors, plots
    from attrib_ds.attribution.credits import attribute
    from attrib_ds.attribution.markov import removal_effects, transition_matrix
    from attrib_ds.attribution.models import (
        ConversionRateShapley,
        CustomWeights,
        FirstTouch,
        Fractribution,
        LastNonDirect,
        LastTouch,
        Linear,
        LinearRamp,
        Markov,
        OrderedShapley,
        Participation,
        PositionBased,
        Shapley,
        TimeDecay,
    )
    from attrib_ds.attribution.paths import Paths
    from attrib_ds.attribution.positions import position_credits
    from attrib_ds.attribution.returns import compare_models, report_returns, roll_up
    from attrib_ds.campaigns import (
        create_campaign,
        create_outlay,
        create_outlays,
        get_campaign,
        get_outlay,
        list_campaigns,
        list_outlays,
        update_campaign,
        update_outlay,
    )
    from attrib_ds.conversions import conversion_paths
    from attrib_ds.event_types import create_event_type, get_event_type, list_event_types
    from attrib_ds.events import (
        get_event,
        get_raw_event,
        list_trashed_events,
        send_events,
        update_states,
        update_statistics,
    )
    from attrib_ds.filters import event, from_json, interaction, node, to_json, user
    from attrib_ds.insights import event_insights, interaction_insights
    from attrib_ds.interactions import (
        create_offline_interactions,
        get_interaction,
        list_hits,
        search_interactions,
    )
    from attrib_ds.loading import load, sample_project
    from attrib_ds.nodes import list_nodes
    from attrib_ds.project import Project, connect
    from attrib_ds.simulation.scenarios import Channel, Scenario
    from attrib_ds.simulation.simulate import simulate

#: Where each public name lives; a name's module loads when the name is first used.
_HOMES = {
    "attribution.credits": ["attribute"],
    "attribution.markov": ["removal_effects", "transition_matrix"],
    "attribution.models": [
        "ConversionRateShapley",
        "CustomWeights",
        "FirstTouch",
        "Fractribution",
        "LastNonDirect",
        "LastTouch",
        "Linear",
        "LinearRamp",
        "Markov",
        "OrderedShapley",
        "Participation",
        "PositionBased",
        "Shapley",
        "TimeDecay",
    ],
    "attribution.paths": ["Paths"],
    "attribution.positions": ["position_credits"],
    "attribution.returns": ["compare_models", "report_returns", "roll_up"],
    "campaigns": [
        "create_campaign",
        "create_outlay",
        "create_outlays",
        "get_campaign",
        "get_outlay",
        "list_campaigns",
        "list_outlays",
        "update_campaign",
        "update_outlay",
    ],
    "conversions": ["conversion_paths"],
    "event_types": ["create_event_type", "get_event_type", "list_event_types"],
    "events": [
        "get_event",
        "get_raw_event",
        "list_trashed_events",
        "send_events",
        "update_states",
        "update_statistics",
    ],
    "filters": ["event", "from_json", "interaction", "node", "to_json", "user"],
    "insights": ["event_insights", "interaction_insights"],
    "interactions": [
        "create_offline_interactions",
        "get_interaction",
        "list_hits",
        "search_interactions",
    ],
    "loading": ["load", "sample_project"],
    "nodes": ["list_nodes"],
    "project": ["Project", "connect"],
    "simulation.scenarios": ["Channel", "Scenario"],
    "simulation.simulate": ["simulate"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Channel",
    "ConversionRateShapley",
    "CustomWeights",
    "FirstTouch",
    "Fractribution",
    "LastNonDirect",
    "LastTouch",
    "Linear",
    "LinearRamp",
    "Markov",
    "OrderedShapley",
    "Participation",
    "Paths",
    "PositionBased",
    "Project",
    "Scenario",
    "Shapley",
    "TimeDecay",
    "attribute",
    "compare_models",
    "connect",
    "conversion_paths",
    "create_campaign",
    "create_event_type",
    "create_offline_interactions",
    "create_outlay",
    "create_outlays",
    "errors",
    "event",
    "event_insights",
    "from_json",
    "get_campaign",
    "get_event",
    "get_event_type",
    "get_interaction",
    "get_outlay",
    "get_raw_event",
    "interaction",
    "interaction_insights",
    "list_campaigns",
    "list_event_types",
    "list_hits",
    "list_nodes",
    "list_outlays",
    "list_trashed_events",
    "load",
    "node",
    "plots",
    "position_credits",
    "removal_effects",
    "report_returns",
    "roll_up",
    "sample_project",
    "search_interactions",
    "send_events",
    "simulate",
    "to_json",
    "transition_matrix",
    "update_campaign",
    "update_outlay",
    "update_states",
    "update_statistics",
    "user",
]


def __getattr__(name: str) -> Any:
    if name in ("errors", "plots"):
        return importlib.import_module(f"attrib_ds.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'attrib_ds' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"attrib_ds.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
