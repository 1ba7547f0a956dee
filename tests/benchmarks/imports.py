"""Processor time of ``import attrib_ds`` compared with ``import pandas``: medians and their ratio."""

import resource
import statistics
import subprocess
import sys

from results import Row, compared, parser, report

GOAL = "≤ 1.3"


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    options = arguments.parse_args()
    seconds: dict[str, list[float]] = {"import pandas": [], "import attrib_ds": []}
    for _ in range(options.rounds):
        for statement, found in seconds.items():
            before = spent()
            subprocess.run([sys.executable, "-c", statement], check=True)
            found.append(spent() - before)
    rows = [Row("imports", name, processor=statistics.median(found)) for name, found in seconds.items()]
    report(compared(rows, "import pandas", goal=GOAL), options.json)


def spent() -> float:
    """Return the processor seconds of all processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
