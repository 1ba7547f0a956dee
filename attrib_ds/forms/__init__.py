"""Forms for notebooks: controls that call a public function and show the code of the call.

Each form displays itself and has ``.value``, ``.code`` and ``.run()``. :func:`live` shows what arrives today.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
