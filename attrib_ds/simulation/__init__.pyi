from .scenarios import Channel as Channel
from .scenarios import Scenario as Scenario
from .scenarios import varied_scenario as varied_scenario
