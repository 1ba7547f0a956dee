"""Public functions, one file per noun."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, submodules={"admin", "experiments", "hits"})
