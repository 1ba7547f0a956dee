"""Looks for known vulnerabilities in the packages that are installed.

From the root of a checkout with the group ``lint`` installed::

    python tools/audit.py

The data comes from PyPI's advisory database. The exit code is 1 if a package has a known vulnerability. Where
the data cannot be had in three tries, as without a network, one line says so and the exit code is 0.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

#: Seconds to wait for the data of a package.
TIMEOUT = 15
TRIES = 3
UNKNOWN = "dependency audit: the data on vulnerabilities could not be had from PyPI"


def main() -> int:
    """Run pip-audit and report its findings."""
    if importlib.util.find_spec("pip_audit") is None:
        print("dependency audit: pip-audit is missing; install it with: pip install --group lint")
        return 2
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--format=json",
        "--progress-spinner=off",
        f"--timeout={TIMEOUT}",
    ]
    for _ in range(TRIES):
        finished = subprocess.run(
            [*command, "--skip-editable", "--local"], capture_output=True, text=True, check=False
        )
        try:
            packages = json.loads(finished.stdout)["dependencies"]
            break
        except (ValueError, KeyError):
            reason = finished.stderr.strip().splitlines()[-1:] or ["no output"]
    else:
        print(f"{UNKNOWN}: {reason[0][:200]}")
        return 0
    audited = [package for package in packages if "vulns" in package]
    if not audited:
        print(f"{UNKNOWN}: it knows none of {len(packages)} packages")
        return 0
    findings = [
        f"{package['name']} {package['version']}: {found['id']}, "
        f"fixed in {', '.join(found['fix_versions']) or 'none'}"
        for package in audited
        for found in package["vulns"]
    ]
    print("\n".join([f"dependency audit: {len(findings)} findings in {len(audited)} packages", *findings]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
