"""Marketing attribution for analysts: interactions, events and credited nodes as DataFrames."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrib_ds import errors, forms, plots
    from attrib_ds.api.admin.audit import list_audit
    from attrib_ds.api.admin.identities import delete_user, export_user_data, merge_users, split_user
    from attrib_ds.api.admin.rates import list_rates, set_rates
    from attrib_ds.api.admin.settings import get_settings, update_settings
    from attrib_ds.api.admin.upkeep import back_up, check
    from attrib_ds.api.campaigns import (
        create_campaign,
        create_outlay,
        create_outlays,
        delete_outlay,
        get_campaign,
        get_outlay,
        list_campaigns,
        list_outlays,
        update_campaign,
        update_outlay,
    )
    from attrib_ds.api.conversions import conversion_paths
    from attrib_ds.api.event_types import (
        archive_event_type,
        create_event_type,
        get_event_type,
        list_event_types,
        restore_event_type,
        update_event_type,
    )
    from attrib_ds.api.events import (
        get_event,
        get_raw_event,
        list_trashed_events,
        replay_events,
        send_events,
        update_states,
        update_statistics,
        validate_events,
    )
    from attrib_ds.api.exports import export_users
    from attrib_ds.api.insights import event_insights, interaction_insights
    from attrib_ds.api.integrations import create_integration
    from attrib_ds.api.interactions import (
        create_offline_interactions,
        get_interaction,
        list_hits,
        search_interactions,
    )
    from attrib_ds.api.loading import load, sample_project
    from attrib_ds.api.nodes import list_nodes
    from attrib_ds.api.users import (
        create_audience,
        delete_audience,
        get_audience,
        get_user,
        list_audiences,
        list_user_events,
        list_user_metrics,
        search_users,
    )
    from attrib_ds.attribution.comparison.lookbacks import compare_lookbacks
    from attrib_ds.attribution.comparison.orders import compare_orders
    from attrib_ds.attribution.credits.branches import drill_down
    from attrib_ds.attribution.credits.credits import attribute
    from attrib_ds.attribution.credits.explanations import explain
    from attrib_ds.attribution.credits.positions import position_credits
    from attrib_ds.attribution.credits.returns import compare_models, report_returns, roll_up
    from attrib_ds.attribution.credits.series import credit_series
    from attrib_ds.attribution.credits.touch_credits import touch_credits
    from attrib_ds.attribution.experiments.combination import combine_with_experiment
    from attrib_ds.attribution.experiments.effects import incremental_effects
    from attrib_ds.attribution.experiments.holdouts import holdout_effects
    from attrib_ds.attribution.experiments.plans import plan_holdout
    from attrib_ds.attribution.held_out import compare_calibration, compare_held_out
    from attrib_ds.attribution.models import (
        AdditiveHazard,
        ConversionRateShapley,
        CustomWeights,
        DiscreteHazard,
        FirstTouch,
        Fractribution,
        Landmark,
        LastNonDirect,
        LastTouch,
        LatentIntent,
        Linear,
        LinearRamp,
        Markov,
        OrderedShapley,
        Participation,
        PositionBased,
        Shapley,
        TimeDecay,
    )
    from attrib_ds.attribution.path_models.markov import removal_effects, transition_matrix
    from attrib_ds.attribution.paths.paths import Paths
    from attrib_ds.failed_rows import retry_failed
    from attrib_ds.filters import event, from_json, interaction, node, to_json, user
    from attrib_ds.importers.ga4 import read_ga4
    from attrib_ds.importers.matomo import read_matomo
    from attrib_ds.importers.own_files import read_journeys
    from attrib_ds.importers.snowplow import read_snowplow
    from attrib_ds.mirroring import sync
    from attrib_ds.project import Project, connect, open_tables
    from attrib_ds.simulation.scenarios import Channel, Scenario, varied_scenario
    from attrib_ds.simulation.simulate import simulate

#: Where each public name lives; a name's module loads when the name is first used.
_HOMES = {
    "administration": ["back_up", "check"],
    "attribution.branches": ["drill_down"],
    "attribution.credit_series": ["credit_series"],
    "attribution.credits": ["attribute"],
    "attribution.experiments.combination": ["combine_with_experiment"],
    "attribution.experiments.effects": ["incremental_effects"],
    "attribution.experiments.holdouts": ["holdout_effects"],
    "attribution.experiments.plans": ["plan_holdout"],
    "attribution.held_out": ["compare_calibration", "compare_held_out"],
    "attribution.lookbacks": ["compare_lookbacks"],
    "attribution.explanations": ["explain"],
    "attribution.markov": ["removal_effects", "transition_matrix"],
    "attribution.models": [
        "AdditiveHazard",
        "ConversionRateShapley",
        "CustomWeights",
        "DiscreteHazard",
        "FirstTouch",
        "Fractribution",
        "Landmark",
        "LastNonDirect",
        "LastTouch",
        "LatentIntent",
        "Linear",
        "LinearRamp",
        "Markov",
        "OrderedShapley",
        "Participation",
        "PositionBased",
        "Shapley",
        "TimeDecay",
    ],
    "attribution.orders": ["compare_orders"],
    "attribution.paths": ["Paths"],
    "attribution.positions": ["position_credits"],
    "attribution.returns": ["compare_models", "report_returns", "roll_up"],
    "attribution.touch_credits": ["touch_credits"],
    "audit": ["list_audit"],
    "campaigns": [
        "create_campaign",
        "create_outlay",
        "create_outlays",
        "delete_outlay",
        "get_campaign",
        "get_outlay",
        "list_campaigns",
        "list_outlays",
        "update_campaign",
        "update_outlay",
    ],
    "conversions": ["conversion_paths"],
    "event_types": [
        "archive_event_type",
        "create_event_type",
        "get_event_type",
        "list_event_types",
        "restore_event_type",
        "update_event_type",
    ],
    "events": [
        "get_event",
        "get_raw_event",
        "list_trashed_events",
        "replay_events",
        "send_events",
        "update_states",
        "update_statistics",
        "validate_events",
    ],
    "exports": ["export_users"],
    "failed_rows": ["retry_failed"],
    "filters": ["event", "from_json", "interaction", "node", "to_json", "user"],
    "identities": ["delete_user", "export_user_data", "merge_users", "split_user"],
    "importers.ga4": ["read_ga4"],
    "importers.matomo": ["read_matomo"],
    "importers.own_files": ["read_journeys"],
    "importers.snowplow": ["read_snowplow"],
    "insights": ["event_insights", "interaction_insights"],
    "integrations": ["create_integration"],
    "interactions": [
        "create_offline_interactions",
        "get_interaction",
        "list_hits",
        "search_interactions",
    ],
    "loading": ["load", "sample_project"],
    "mirroring": ["sync"],
    "nodes": ["list_nodes"],
    "project": ["Project", "connect", "open_tables"],
    "rates": ["list_rates", "set_rates"],
    "settings": ["get_settings", "update_settings"],
    "users": [
        "create_audience",
        "delete_audience",
        "get_audience",
        "get_user",
        "list_audiences",
        "list_user_events",
        "list_user_metrics",
        "search_users",
    ],
    "simulation.scenarios": ["Channel", "Scenario", "varied_scenario"],
    "simulation.simulate": ["simulate"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AdditiveHazard",
    "Channel",
    "ConversionRateShapley",
    "CustomWeights",
    "DiscreteHazard",
    "FirstTouch",
    "Fractribution",
    "Landmark",
    "LastNonDirect",
    "LastTouch",
    "LatentIntent",
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
    "archive_event_type",
    "attribute",
    "back_up",
    "check",
    "combine_with_experiment",
    "compare_calibration",
    "compare_held_out",
    "compare_lookbacks",
    "compare_models",
    "compare_orders",
    "connect",
    "conversion_paths",
    "create_audience",
    "create_campaign",
    "create_event_type",
    "create_integration",
    "create_offline_interactions",
    "create_outlay",
    "create_outlays",
    "credit_series",
    "delete_audience",
    "delete_outlay",
    "delete_user",
    "drill_down",
    "errors",
    "event",
    "event_insights",
    "explain",
    "export_user_data",
    "export_users",
    "forms",
    "from_json",
    "get_audience",
    "get_campaign",
    "get_event",
    "get_event_type",
    "get_interaction",
    "get_outlay",
    "get_raw_event",
    "get_settings",
    "get_user",
    "holdout_effects",
    "incremental_effects",
    "interaction",
    "interaction_insights",
    "list_audiences",
    "list_audit",
    "list_campaigns",
    "list_event_types",
    "list_hits",
    "list_nodes",
    "list_outlays",
    "list_rates",
    "list_trashed_events",
    "list_user_events",
    "list_user_metrics",
    "load",
    "merge_users",
    "node",
    "open_tables",
    "plan_holdout",
    "plots",
    "position_credits",
    "read_ga4",
    "read_journeys",
    "read_matomo",
    "read_snowplow",
    "removal_effects",
    "replay_events",
    "report_returns",
    "restore_event_type",
    "retry_failed",
    "roll_up",
    "sample_project",
    "search_interactions",
    "search_users",
    "send_events",
    "set_rates",
    "simulate",
    "split_user",
    "sync",
    "to_json",
    "touch_credits",
    "transition_matrix",
    "update_campaign",
    "update_event_type",
    "update_outlay",
    "update_settings",
    "update_states",
    "update_statistics",
    "user",
    "validate_events",
    "varied_scenario",
]


def __getattr__(name: str) -> Any:
    if name in ("errors", "forms", "plots"):
        return importlib.import_module(f"attrib_ds.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'attrib_ds' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"attrib_ds.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
