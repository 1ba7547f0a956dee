"""The command line that the programs in this folder share: how often, from which seed, what was found."""

from __future__ import annotations

import argparse
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def run_from_command_line(run: Callable, show: Callable, *, times: str, default: int, purpose: str) -> int:
    """Run a program, show its summary and its problems, and return its exit code.

    Parameters
    ----------
    run : callable
        Called with how often and with the seed; returns a summary with ``problems``.
    show : callable
        Returns the lines about a summary that precede its problems.
    times : str
        Name of the option that says how often.
    default : int
        Its value if it is not given.
    purpose : str
        One sentence for ``--help``.
    """
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument(f"--{times}", dest="times", type=int, default=default)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    summary = run(options.times, options.seed)
    for line in show(summary):
        print(line)
    return exit_code(summary.problems)


def exit_code(problems: Iterable[str]) -> int:
    """Print problems; 0 if there is none."""
    found = list(problems)
    print(f"{len(found)} problems")
    for problem in found:
        print(f"  {problem}")
    return int(bool(found))
