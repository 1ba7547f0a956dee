"""Randomised holdouts: planning one, the effects it measures, and models corrected by it."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
