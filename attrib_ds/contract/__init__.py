"""Operations of the service, declared once as data; routes, OpenAPI and HTTP calls are derived from them."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
