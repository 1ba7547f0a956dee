"""Attribution: credits of traffic-source nodes, computed from tables of touchpoints and conversions."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, submodules={"models"})
