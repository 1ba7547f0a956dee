"""Journeys with known truth, for judging models: what each channel caused is known because we made it so."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
