"""Puts small deliberate bugs into copies of the package, one at a time, and runs the tests that must notice.

Each entry of ``mutants.toml`` is a bug: its name, the file, a piece of code that stands there exactly once,
the piece that takes its place, and the tests that fail because of it. An entry whose code or tests are no
longer there is stale: correct it together with the code, and never drop one to make a change pass.

From the root of a checkout with the extra ``test`` installed::

    python tools/mutants.py                         # all of them; two at a time, a quarter of an hour
    python tools/mutants.py --check                 # only whether every entry still fits the code
    python tools/mutants.py week window --jobs 4    # those with one of the words in name or file
    python tools/mutants.py week --skip-baseline    # without running the tests on correct code first
    python tools/mutants.py --random 60 --seed 7    # 60 bugs drawn from all lines of the package

A drawn bug flips a comparison, negates a condition, exchanges ``and`` and ``or`` or ``+`` and ``-``, adds one
to a number, drops a statement or returns None. The quick tests of the folder that mirrors its file must
notice it; a survivor needs a test there, or an argument that no caller can tell the difference.

The working tree is never changed. Every bug has a temporary copy of the package, which stands first on
PYTHONPATH, also for the processes that tests start. The exit code is 1 if any bug survives or could not be
tried, and 2 if an entry is stale or the tests fail without a bug.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
PACKAGE = "attrib_ds"
#: A bug that makes a test go on for ever is noticed too.
SECONDS = 600
#: Exit code of pytest when every test of a folder is marked slow.
ONLY_SLOW = 5
#: A bug that ends the process, as unchecked rows may end Arrow, is noticed like one that fails a test.
OUTCOMES = {0: "survived", 1: "killed", -signal.SIGSEGV: "killed", -signal.SIGABRT: "killed"}


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
    # Of one that is parametrised, with or without the case.
    return f"def {function.partition('[')[0].rpartition('::')[2]}(" in file.read_text(encoding="utf-8")


def main() -> int:
    """Run the program."""
    options = parse_options()
    mutants = [Mutant(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]]
    if is_any_stale(mutants):
        return 2
    chosen = [each for each in mutants if is_asked_for(each, options.words)]
    if options.random:
        chosen = draw(options.random, options.seed)
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
    parser.add_argument("--random", type=int, metavar="N", help="draw this many random bugs instead")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default 0)")
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


#: Operators and what takes their place.
EXCHANGED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
}


def draw(count: int, seed: int) -> list[Mutant]:
    """Draw lines of the package, and for each one a bug that is possible there."""
    lines: dict[tuple[Path, int], list[tuple[int, int, bytes]]] = {}
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        source = file.read_bytes()
        starts = [0, *(found.end() for found in re.finditer(b"\n", source))]
        for node in code_of(ast.parse(source)):
            for first, last, bug in edits(node, source, starts):
                lines.setdefault((file, node.lineno), []).append((first, last, bug))
    generator = random.Random(seed)
    mutants = []
    for (file, line), possible in generator.sample(list(lines.items()), count):
        first, last, bug = generator.choice(possible)
        source = file.read_bytes()
        name = f"{file.relative_to(ROOT)}:{line} {source[first:last].decode()!r} -> {bug.decode()!r}"
        whole = (source[:first] + bug + source[last:]).decode()
        mutants.append(Mutant(name, str(file.relative_to(ROOT)), source.decode(), whole, own_tests(file)))
    return mutants


def code_of(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through what runs: no annotations, and nothing for type checkers alone."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns"):
                yield from code_of(child)
    if hasattr(node, "lineno"):
        yield node


def edits(node: ast.AST, source: bytes, starts: list[int]) -> Iterator[tuple[int, int, bytes]]:
    """Return the bugs that are possible at a node: begin and end of the text, and what takes its place."""

    def begin(part: ast.AST) -> int:
        return starts[part.lineno - 1] + part.col_offset

    def end(part: ast.AST) -> int:
        return starts[part.end_lineno - 1] + part.end_col_offset

    def exchange(left: ast.AST, operator: ast.AST, right: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        between, (old, new) = source[end(left) : begin(right)], EXCHANGED[type(operator)]
        if old.encode() in between:
            yield end(left), begin(right), between.replace(old.encode(), new.encode(), 1)

    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield from exchange(left, operator, right)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            yield from exchange(left, operator, right)
        case ast.BoolOp(op=operator, values=[left, right]):
            yield from exchange(left, operator, right)
        case ast.Constant(value=bool() as value):
            yield begin(node), end(node), str(not value).encode()
        case ast.Constant(value=int() as value):
            yield begin(node), end(node), str(value + 1).encode()
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield begin(test), end(test), b"(not (" + source[begin(test) : end(test)] + b"))"
        case ast.Return(value=ast.AST() as value) if not isinstance(value, ast.Constant):
            yield begin(node), end(node), b"return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield begin(node), end(node), b"pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield begin(node), end(node), b"pass"


def own_tests(file: Path) -> list[str]:
    """Return the arguments of pytest for the quick tests that mirror a file, those of its name first."""
    inside = file.relative_to(ROOT / PACKAGE)
    folder = ROOT / "tests" / inside.with_suffix("")
    while not list(folder.glob("test_*.py")):
        folder = folder.parent
    tests = sorted(folder.glob("test_*.py"), key=lambda test: (file.stem not in test.stem, test.name))
    return ["-m", "not slow", "--timeout", "120", *(str(test.relative_to(ROOT)) for test in tests)]


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
            if result.returncode == ONLY_SLOW:
                result = run(Path(folder), ["-x", *mutant.tests[2:]], seconds=SECONDS)
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
