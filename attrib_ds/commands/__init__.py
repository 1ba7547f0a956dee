"""The command line, ``attrib-ds``."""
