"""How services that keep the specification may differ: `Variation`, and `VARIATIONS` by name."""

import tomllib
from dataclasses import make_dataclass
from itertools import product
from pathlib import Path

from support.vendor.world import SERVICE

WRITES = [name for name in SERVICE["operations"] if name.startswith(("create", "update"))]
CALLS = {"first": (1,), "always": range(1, 10**9), "thirds": range(3, 10**9, 3)}
ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _kind(name):
    """Return a frozen class of the options, and of their defaults, in a table of the file."""
    options = [(option, object, _frozen(value)) for option, value in ROWS.pop(name.lower()).items()]
    return make_dataclass(name, options, frozen=True, kw_only=True)


def _frozen(value):
    return tuple(value) if isinstance(value, list) else None if value == "unset" else value


Fault, Variation = _kind("Fault"), _kind("Variation")


def _table(rows):
    answers = [*product((200, 201, 202), SERVICE["writes"]), (204, "empty")]
    for (status, form), every in product(answers, (False, True)):
        name = f"{'every-' if every else ''}write-{status}-{form}"
        rows[name] = {"write": (status, form), "every_write": every}
    for status, on in product((408, 425, 429, 500, 502, 503, 504), ("reads", "writes")):
        for after in ("unset", "0", "date", "soon"):
            name = f"{status}-{on}" + (f"-after-{after}" if after != "unset" else "")
            rows[name] = {"faults": [{"answer": status, "on": on, "retry_after": after}]}
        rows[f"{status}-{on}-carried-out"] = {"faults": [{"answer": status, "on": on, "carried_out": True}]}
    for answer, on in product(("lost", "cut", "dropped"), ("reads", "writes", *WRITES)):
        rows[f"{answer}-{on}"] = {"faults": [{"answer": answer, "on": on}]}
    for option, value in rows.pop("each").items():
        rows |= {f"{option.replace('_', '-')}-{one}": {option: one} for one in value}
    for status in (400, 401, 403, 407, 429, 500, 503):
        rows[f"token-{status}"] = {"faults": [{"answer": status, "on": "token", "calls": "always"}]}
    for row in rows.values():
        row["faults"] = [Fault(**{k: v for k, v in f.items() if v != "unset"}) for f in row.get("faults", ())]
    kept = {name: {k: _frozen(v) for k, v in row.items()} for name, row in rows.items()}
    return {"plain": Variation()} | {name: Variation(**row) for name, row in kept.items()}


VARIATIONS = _table(ROWS)
