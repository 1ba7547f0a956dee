"""Contract: each operation of the service, declared once as data; whatever a machine reads is derived from it."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
