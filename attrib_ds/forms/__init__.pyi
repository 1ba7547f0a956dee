from .connecting import connection as connection
from .crediting import attribution as attribution
from .interactions import insights as insights
from .interactions import search as search
from .predicates import filters as filters
from .sending import send_events as send_events
from .users import export as export
