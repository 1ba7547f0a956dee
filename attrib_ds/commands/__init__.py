"""The command line, ``attrib-ds``; each command imports its modules when it runs."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__, submodules={"administration", "attribution", "serving"})
