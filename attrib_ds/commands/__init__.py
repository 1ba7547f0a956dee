"""The command line, ``attrib-ds``; what a command needs is imported when it runs."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach(
    __name__, submodules={"administration", "attribution", "projects", "serving"}
)
