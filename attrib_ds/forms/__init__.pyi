from .attribution_form import attribution as attribution
from .connection_form import connection as connection
from .conversions_form import conversions as conversions
from .event_form import send_events as send_events
from .export_form import export as export
from .filter_form import filters as filters
from .interaction_forms import insights as insights
from .interaction_forms import search as search
