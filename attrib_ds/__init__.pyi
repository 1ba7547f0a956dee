from . import errors as errors
from . import forms as forms
from . import plots as plots
from . import simulation as simulation
from .api import admin as admin
from .api import experiments as experiments
from .api import hits as hits
from .api.campaigns import (
    create_campaign as create_campaign,
)
from .api.campaigns import (
    create_outlay as create_outlay,
)
from .api.campaigns import (
    create_outlays as create_outlays,
)
from .api.campaigns import (
    get_campaign as get_campaign,
)
from .api.campaigns import (
    get_outlay as get_outlay,
)
from .api.campaigns import (
    list_campaigns as list_campaigns,
)
from .api.campaigns import (
    list_outlays as list_outlays,
)
from .api.campaigns import (
    update_campaign as update_campaign,
)
from .api.campaigns import (
    update_outlay as update_outlay,
)
from .api.conversions import conversion_paths as conversion_paths
from .api.events import create_event_type as create_event_type
from .api.events import get_event as get_event
from .api.events import get_event_type as get_event_type
from .api.events import get_raw_event as get_raw_event
from .api.events import list_event_types as list_event_types
from .api.events import list_trashed_events as list_trashed_events
from .api.events import search_events as search_events
from .api.events import send_events as send_events
from .api.events import update_states as update_states
from .api.events import update_statistics as update_statistics
from .api.interactions import create_offline_interactions as create_offline_interactions
from .api.interactions import event_insights as event_insights
from .api.interactions import funnel as funnel
from .api.interactions import get_interaction as get_interaction
from .api.interactions import interaction_insights as interaction_insights
from .api.interactions import list_hits as list_hits
from .api.interactions import list_nodes as list_nodes
from .api.interactions import page_insights as page_insights
from .api.interactions import search_interactions as search_interactions
from .api.offline_conversions import send_conversions as send_conversions
from .api.results import export_interactions as export_interactions
from .api.results import export_users as export_users
from .api.results import load as load
from .api.results import to_excel as to_excel
from .api.users import (
    get_user as get_user,
)
from .api.users import (
    list_user_events as list_user_events,
)
from .api.users import (
    list_user_metrics as list_user_metrics,
)
from .api.users import (
    search_users as search_users,
)
from .attribution import models as models
from .attribution.comparison import compare_lookbacks as compare_lookbacks
from .attribution.comparison import compare_orders as compare_orders
from .attribution.credits.credits import attribute as attribute
from .attribution.credits.explanations import explain as explain
from .attribution.credits.returns import compare_models as compare_models
from .attribution.credits.returns import drill_down as drill_down
from .attribution.credits.returns import report_returns as report_returns
from .attribution.credits.returns import roll_up as roll_up
from .attribution.credits.series import credit_series as credit_series
from .attribution.credits.touches import position_credits as position_credits
from .attribution.credits.touches import touch_credits as touch_credits
from .attribution.experiments.effects import compare as compare
from .attribution.experiments.estimation import estimate_effects as estimate_effects
from .attribution.markov import removal_effects as removal_effects
from .attribution.markov import transition_matrix as transition_matrix
from .attribution.paths.paths import Paths as Paths
from .filters import (
    event as event,
)
from .filters import (
    from_json as from_json,
)
from .filters import (
    interaction as interaction,
)
from .filters import (
    node as node,
)
from .filters import (
    to_json as to_json,
)
from .filters import (
    user as user,
)
from .importers.exports import read_ga4 as read_ga4
from .importers.exports import read_matomo as read_matomo
from .importers.exports import read_snowplow as read_snowplow
from .importers.own_journeys import read_journeys as read_journeys
from .importers.preview import preview_files as preview_files
from .importers.reading import Reading as Reading
from .mirroring import sync as sync
from .plots.report import report as report
from .project import Project as Project
from .project import connect as connect
from .project import open_hits as open_hits
from .project import open_tables as open_tables
from .sample.shop import sample_project as sample_project
from .simulation.simulate import simulate as simulate

__version__: str
