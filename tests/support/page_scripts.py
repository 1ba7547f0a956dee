"""Pages of the documentation as scripts, and the environment that each of them asks for."""

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_RUNNER = Path(__file__).with_name("bare_environment.py")
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_OUTPUT = re.compile(r"\n^```output\n.*?^```\n", re.DOTALL | re.MULTILINE)
_EXTRAS = re.compile(r"pip install '(?:attrib-ds|\.)\[([\w,]+)\]'")
_CONTINUES = re.compile(r"This page continues\s+\[[^\]]+\]\(([\w./-]+)\)")
#: Printed after each block.
_END = "-- end of a block --\n"
#: Runs the script of a folder with some extras, and returns its exit code.
RunPage = Callable[[Path, tuple[str, ...]], int]


@functools.cache
def pages() -> tuple[Path, ...]:
    """Return the pages that have Python, README first."""
    found = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    hidden = {"_build", "notebooks", "generated"}
    return tuple(page for page in found if not hidden & set(page.parts) and python_of(page))


@functools.cache
def notebooks() -> tuple[Path, ...]:
    """Return the notebooks."""
    return tuple(sorted(ROOT.glob("notebooks/*.ipynb")))


def python_of(page: Path) -> str:
    """Return the Python of a page or a notebook, all blocks in order."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(_BLOCK.findall(page.read_text(encoding="utf-8")))


def with_outputs(page: Path, printed: list[str]) -> str:
    """Return the text of a page with what its blocks print below them."""
    text = _OUTPUT.sub("", page.read_text(encoding="utf-8"))
    outputs = iter(printed[-len(_BLOCK.findall(text)) :])

    def with_output(block: re.Match[str]) -> str:
        lines = "".join(f"{line.rstrip()}\n" for line in next(outputs).splitlines())
        return block[0] + (f"\n```output\n{lines}```\n" if lines else "")

    return _BLOCK.sub(with_output, text)


def named_extras(page: Path) -> list[str]:
    """Return the extras that a page names above its first block of Python."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        top = "".join(cells[0]["source"])
    else:
        top = page.read_text(encoding="utf-8").partition("```python")[0]
    return [name for found in _EXTRAS.findall(top) for name in found.split(",")]


def continued(page: Path) -> Path | None:
    """Return the page whose state this one goes on from."""
    if page.suffix == ".ipynb":
        return None
    found = _CONTINUES.search(page.read_text(encoding="utf-8").partition("```python")[0])
    return (page.parent / found[1]).resolve() if found else None


def script_of(page: Path, after: str = "") -> str:
    """Return what a reader runs: the page it continues, if any, and the page; and a line after each block."""
    earlier = continued(page)
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return (script_of(earlier, after) if earlier else "") + "".join(f"{block}\n{after}" for block in blocks)


@contextmanager
def bare_interpreters() -> Iterator[RunPage]:
    """Run pages in interpreters that have nothing but the package and some extras: one for each choice of extras."""
    environment = {
        **os.environ,
        "MPLBACKEND": "agg",
        "TQDM_DISABLE": "1",
        "PYTHONWARNINGS": "ignore::DeprecationWarning",
    }
    with ExitStack() as stack:

        @functools.cache
        def started(extras: tuple[str, ...]) -> subprocess.Popen[str]:
            command = [sys.executable, str(_RUNNER), *extras]
            pipe = subprocess.PIPE
            return stack.enter_context(
                subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
            )

        def run_page(folder: Path, extras: tuple[str, ...]) -> int:
            process = started(extras)
            print(folder, file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield run_page


def run(page: Path, folder: Path, replaced: dict[str, str], end: str, run_page: RunPage) -> list[str]:
    """Run a page and lines after its end in a folder, as printed but for addresses.

    Return what each block prints, and what the end prints. Nothing may be printed to standard error, where no reader
    expects a message.
    """
    script = script_of(page, f"print({_END!r}, end='')\n") + end
    for address, local in replaced.items():
        script = script.replace(address, local)
    (folder / "page.py").write_text(script, encoding="utf-8")
    code = run_page(folder, tuple(named_extras(page)))
    output, errors = ((folder.parent / name).read_text(encoding="utf-8") for name in ("output", "errors"))
    assert (code, errors) == (0, ""), errors[-3000:]
    return output.split(_END)
