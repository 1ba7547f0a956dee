"""``python -m attrib_ds`` is the command ``attrib-ds``."""

import sys

from attrib_ds.commands.cli import main

sys.exit(main())
