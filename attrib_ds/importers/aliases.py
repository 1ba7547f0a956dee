"""Present names of renamed campaigns, channels and other nodes."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

from attrib_ds import display, errors
from attrib_ds.contract.identifiers import slug_of
from attrib_ds.traffic.sources import Traffic

_NAMES: Final = [field.name for field in fields(Traffic) if field.name != "campaign_id"]
_ALLOWED: Final = "present names by former ones, as text, such as {'spring sale': 'summer sale'}"


class Aliases:
    """Present names of nodes by their former ones, and those that no row has had.

    Names are compared as those of campaigns are: without regard to case, white space, ``-`` and ``_``.

    Parameters
    ----------
    names : mapping of str to str, optional
        Present names by former ones. A present name that is a former one, too, stands for its own present
        name.

    Raises
    ------
    InvalidRequest
        If it is not a mapping of texts, a text is blank, a former name has two present names, or names lead
        back to themselves.

    Examples
    --------
    >>> aliases = Aliases({"spring sale": "summer", "summer": "autumn"})
    >>> aliases.renamed(pa.table({"campaign": ["Spring-Sale", None]}))["campaign"].to_pylist()
    ['autumn', None]
    """

    def __init__(self, names: Mapping[str, str] | None) -> None:
        given = {} if names is None else _checked(names)
        self._present = {former: _last_name(former, given) for former in given}
        self._unused = {slug_of(former): former for former in names or {}}

    def renamed(self, rows: pa.Table) -> pa.Table:
        """Return rows, whose columns are fields of a traffic source, with the present names."""
        for column in _NAMES if self._present else ():
            if column in rows.column_names:
                write = self._levels if column == "levels" else self._name
                words = [word and write(word) for word in rows[column].to_pylist()]
                rows = rows.set_column(rows.column_names.index(column), column, pa.array(words, pa.string()))
        return rows

    def _name(self, word: str) -> str:
        former = slug_of(word)
        self._unused.pop(former, None)
        return self._present.get(former, word)

    def _levels(self, text: str) -> str:
        return json.dumps([word and self._name(word) for word in json.loads(text)])

    def warn_of_unused(self) -> None:
        """Warn of former names that no row has had."""
        if self._unused:
            missed = ", ".join(map(repr, self._unused.values()))
            errors.warn(f"aliases: no campaign or other node is named {display.printable(missed)}")


def _checked(names: Any) -> dict[str, str]:
    """Return the present names by the slugs of the former ones."""
    if not isinstance(names, Mapping):
        raise errors.InvalidRequest.value("aliases", names, _ALLOWED)
    present: dict[str, str] = {}
    for former, name in names.items():
        if not all(isinstance(word, str) and word.strip() for word in (former, name)):
            raise errors.InvalidRequest.value("aliases", {former: name}, _ALLOWED)
        if present.setdefault(slug_of(former), name) != name:
            raise errors.InvalidRequest(
                f"aliases: {former!r} has two present names, {present[slug_of(former)]!r} and {name!r}; "
                "allowed: one"
            )
    return present


def _last_name(former: str, present: Mapping[str, str]) -> str:
    """Return the name at the end of the names that follow a former one."""
    followed, name = [former], present[former]
    while (slug := slug_of(name)) in present and slug != followed[-1]:
        if slug in followed:
            names = " > ".join(repr(present[each]) for each in followed)
            raise errors.InvalidRequest(
                f"aliases: the names {names} lead back to themselves; leave out the alias of the present name"
            )
        followed.append(slug)
        name = present[slug]
    return name
