"""The command ``attrib-ds``.

Exit codes: 0 success, 1 a failure reported in one line on standard error, 2 wrong usage.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from attrib_ds.commands.parser import make_parser, show_error
from attrib_ds.errors import AttribError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments after the program's name; those of the process by default.

    Returns
    -------
    int
        The exit code.
    """
    options = make_parser().parse_args(arguments)
    if options.home is not None:
        os.environ["ATTRIB_DS_HOME"] = str(options.home)
    try:
        options.run(options)
    except (AttribError, OSError) as error:
        show_error(str(error))
        return 1
    except KeyboardInterrupt:
        show_error("interrupted")
        return 1
    return 0
