"""Time of ``import attrib_ds`` compared with ``import pandas``: medians and their ratio."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 15


def main() -> None:
    """Run the benchmark."""
    seconds: dict[str, list[float]] = {"pandas": [], "attrib_ds": []}
    for _ in range(ROUNDS):
        for name, found in seconds.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
            found.append(time.perf_counter() - start)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    for name, median in medians.items():
        print(f"import {name}: {median:.3f} s")
    print(f"ratio: {medians['attrib_ds'] / medians['pandas']:.2f}")


if __name__ == "__main__":
    main()
