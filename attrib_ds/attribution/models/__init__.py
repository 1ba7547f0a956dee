"""Attribution models as frozen values; a name such as ``"linear"`` stands for its default parameters.

:mod:`~attrib_ds.attribution.rules`, :mod:`~attrib_ds.attribution.markov`,
:mod:`~attrib_ds.attribution.conversion_rates` and :mod:`~attrib_ds.attribution.incremental` compute credits.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
