"""Puts small deliberate bugs into copies of the package, one at a time, and runs the tests that must notice.

Each entry of ``mutants.toml`` is a bug: its name, the file, a piece of code that stands there exactly once,
the piece that takes its place, and the tests that fail because of it. An entry whose code or tests are no
longer there is stale: correct it together with the code, and never drop one to make a change pass.

From the root of a checkout with the extra ``test`` installed::

    python tools/mutants.py                         # all of them; two at a time, a quarter of an hour
    python tools/mutants.py --check                 # only whether every entry still fits the code
    python tools/mutants.py week window --jobs 4    # those with one of the words in name or file
    python tools/mutants.py week --skip-baseline    # without running the tests on correct code first

The working tree is never changed. Every bug has a temporary copy of the package, which stands first on
PYTHONPATH, also for the processes that tests start. The exit code is 1 if any bug survives or could not be
tried, and 2 if an entry is stale or the tests fail without a bug.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
PACKAGE = "attrib_ds"
#: A bug that makes a test go on for ever is noticed too.
SECONDS = 600
OUTCOMES = {0: "survived", 1: "killed"}


@dataclass(frozen=True)
class Mutant:
    """One deliberate bug.

    Parameters
    ----------
    name : str
        What is wrong with it.
    file : str
        Path from the root.
    code, bug : str
        What stands in the file, and what takes its place.
    tests : list of str
        Files or ids of tests that fail because of it.
    """

    name: str
    file: str
    code: str
    bug: str
    tests: list[str]

    def problem(self) -> str | None:
        """Return why the entry no longer fits the checkout, None if it does."""
        file = ROOT / self.file
        if not file.is_file():
            return f"{self.file} is not there"
        found = file.read_text(encoding="utf-8").count(self.code)
        if found != 1:
            return f"{self.file} has the code {found} times, not once: {self.code!r}"
        missing = [test for test in self.tests if not is_there(test)]
        if missing or not self.tests:
            return f"no such test: {', '.join(missing) or 'none is named'}"
        return None if self.bug != self.code else "the bug is the code itself"


def is_there(test: str) -> bool:
    """Say whether there is a file of tests, and in it the test if the id names one."""
    name, _, function = test.partition("::")
    file = ROOT / name
    if not file.is_file() or not function:
        return file.is_file()
    return f"def {function.rpartition('::')[2]}(" in file.read_text(encoding="utf-8")


def main() -> int:
    """Run the program."""
    options = parse_options()
    mutants = [Mutant(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]]
    if is_any_stale(mutants):
        return 2
    chosen = [each for each in mutants if is_asked_for(each, options.words)]
    print(f"{len(mutants)} entries, all of which fit the code; {len(chosen)} chosen")
    if options.check:
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        original = Path(folder, "original")
        shutil.copytree(ROOT / PACKAGE, original / PACKAGE)
        # Once: copies keep the dates of files, so that their compiled code holds.
        compileall.compile_dir(original, quiet=1)
        if not options.skip_baseline and not passes(original, chosen, jobs=options.jobs):
            print("The tests fail without any bug; nothing else was tried.")
            return 2
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(lambda each: try_out(each, original), chosen))
    left = [each.name for each, outcome in zip(chosen, outcomes, strict=True) if outcome != "killed"]
    print(f"{len(chosen) - len(left)} of {len(chosen)} killed")
    for name in left:
        print(f"NOT KILLED: {name}")
    return 1 if left else 0


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Try whether the tests notice deliberate bugs.")
    parser.add_argument("words", nargs="*", help="only entries with one of these in name or file")
    parser.add_argument("--check", action="store_true", help="only check that entries fit the code")
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time (default 2)")
    parser.add_argument("--skip-baseline", action="store_true", help="trust that tests pass without a bug")
    return parser.parse_args()


def is_any_stale(mutants: list[Mutant]) -> bool:
    """Print the entries that do not fit the code, and say whether there are any."""
    problems = [(each.name, each.problem()) for each in mutants]
    names = [each.name for each in mutants]
    problems += [(name, "the name is there twice") for name in set(names) if names.count(name) > 1]
    stale = [(name, problem) for name, problem in problems if problem is not None]
    for name, problem in stale:
        print(f"STALE: {name}: {problem}")
    return bool(stale)


def is_asked_for(mutant: Mutant, words: list[str]) -> bool:
    """Say whether an entry is chosen by the words of the command line."""
    text = f"{mutant.name} {mutant.file}".lower()
    return not words or any(word.lower() in text for word in words)


def passes(original: Path, chosen: list[Mutant], *, jobs: int) -> bool:
    """Run all tests of the chosen entries on the correct code."""
    tests = list(dict.fromkeys(test for each in chosen for test in each.tests))
    print(f"without a bug: {len(tests)} files or ids of tests")
    result = run(original, ["-p", "xdist", "-n", str(jobs), "--dist", "loadfile", *tests], seconds=None)
    if result.returncode:
        print(result.stdout)
    return result.returncode == 0


def try_out(mutant: Mutant, original: Path) -> str:
    """Put one bug into a copy of the package, run its tests on it, and print what became of it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=original.parent) as folder:
        shutil.copytree(original / PACKAGE, Path(folder, PACKAGE))
        file = Path(folder, mutant.file)
        file.write_text(file.read_text(encoding="utf-8").replace(mutant.code, mutant.bug), encoding="utf-8")
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            compiled.unlink()
        try:
            result = run(Path(folder), ["-x", *mutant.tests], seconds=SECONDS)
        except subprocess.TimeoutExpired:
            outcome, by = "killed", " (it never ended)"
        else:
            # Neither passed nor failed: no such test, or a copy that cannot even be imported.
            outcome = OUTCOMES.get(result.returncode, f"not tried (pytest ended with {result.returncode})")
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
            by = f" ({failed[1]})" if failed else ""
            if outcome not in ("killed", "survived"):
                print(result.stdout)
    print(f"{outcome:10} {time.monotonic() - began:5.0f} s  {mutant.name}{by}", flush=True)
    return outcome


def run(folder: Path, arguments: list[str], *, seconds: float | None) -> subprocess.CompletedProcess[str]:
    """Run tests of the checkout on the package in a folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        # Otherwise the working tree, where pytest runs, would stand before the folder.
        "PYTHONSAFEPATH": "1",
        # To import the plug-ins that happen to be installed takes longer than most of the tests.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "pytest_timeout",
        "-o",
        "addopts=--import-mode=importlib --strict-markers",
    ]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
