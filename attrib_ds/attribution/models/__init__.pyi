from .incremental import (
    AdditiveHazard as AdditiveHazard,
)
from .incremental import (
    DiscreteHazard as DiscreteHazard,
)
from .incremental import (
    Landmark as Landmark,
)
from .incremental import (
    LatentIntent as LatentIntent,
)
from .model import Model as Model
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
    OrderedShapley as OrderedShapley,
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
from .sequences import (
    ConversionRateShapley as ConversionRateShapley,
)
from .sequences import (
    Fractribution as Fractribution,
)
from .sequences import (
    Markov as Markov,
)
