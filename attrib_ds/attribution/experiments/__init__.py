"""Randomised holdouts: plan one, measure effects with it, and combine it with models."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
