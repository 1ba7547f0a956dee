from .model import Model as Model
from .path_models import (
    ConversionRateShapley as ConversionRateShapley,
)
from .path_models import (
    DiscreteHazard as DiscreteHazard,
)
from .path_models import (
    Fractribution as Fractribution,
)
from .path_models import (
    Markov as Markov,
)
from .rules import (
    CustomWeights as CustomWeights,
)
from .rules import (
    FirstTouch as FirstTouch,
)
from .rules import (
    LastNonDirect as LastNonDirect,
)
from .rules import (
    LastTouch as LastTouch,
)
from .rules import (
    Linear as Linear,
)
from .rules import (
    LinearRamp as LinearRamp,
)
from .rules import (
    Participation as Participation,
)
from .rules import (
    PositionBased as PositionBased,
)
from .rules import (
    Shapley as Shapley,
)
from .rules import (
    TimeDecay as TimeDecay,
)
