"""Marketing attribution for analysts: interactions, events and credited nodes as DataFrames.

The public names are listed in ``__init__.pyi``; each is imported when it is first used.
"""

from importlib.metadata import version

import lazy_loader as lazy

__version__ = version("attrib-ds")
__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
