"""How services that keep the specification may differ: `Variation`, and `VARIATIONS` by name."""

import tomllib
from itertools import product
from pathlib import Path

import pydantic
from support.vendor.world import SERVICE

WRITES = [name for name in SERVICE["operations"] if name.startswith(("create", "update"))]
TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _kind(name, **types):
    """Return a class of the options, and of their defaults, in a table of the file."""
    options = {key: (types.get(key, object), value) for key, value in TABLE.pop(name.lower()).items()}
    return pydantic.create_model(name, __config__={"extra": "forbid"}, **options)


def _combinations(name, each=None, each_fault=None):
    """Return the rows of a family by name."""
    options = each or each_fault
    rows = [dict(zip(options, values, strict=True)) for values in product(*options.values())]
    return {name.format(**row): row if each else {"faults": [row]} for row in rows}


Fault = _kind("Fault")
Variation = _kind("Variation", faults=list[Fault])
FAMILIES = [_combinations(**family) for family in TABLE.pop("families")]
VARIATIONS = {"plain": Variation()}
VARIATIONS |= {name: Variation(**row) for rows in (TABLE, *FAMILIES) for name, row in rows.items()}
