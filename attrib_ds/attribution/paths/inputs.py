"""Input tables of users: columns converted to the types attribution needs, and checked by the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from attrib_ds import sql_results
from attrib_ds.attribution.engines.engine import double, rebound
from attrib_ds.attribution.paths.money import OCCURRED
from attrib_ds.display import counted, worth
from attrib_ds.errors import InvalidRequest, closest, warn
from attrib_ds.records import currencies, person_ids
from attrib_ds.records.frames import read_table, with_index
from attrib_ds.records.text_files import literal, quoted

#: Prefix of the conversion columns that hold milestone dates.
MILESTONE = "milestone."
#: Column of conversions: the date of their state.
STATE = "state_date"
#: Further columns that users may name, besides milestones.
FURTHER = ("touch", "type", "kind", "state")


def check_columns(columns: Mapping[str, str]) -> None:
    """Check the keys of further columns.

    Raises
    ------
    InvalidRequest
        If a key is neither in ``FURTHER`` nor that of a milestone.
    """
    for name in columns:
        if name not in FURTHER and not name.startswith(MILESTONE):
            raise InvalidRequest.choice("columns", name, (*FURTHER, f"{MILESTONE}NAME"))


def read_touchpoints(
    source: Input, *, user: str, node: str, date: str, columns: Mapping[str, str]
) -> ir.Table:
    """Return ``user_id``, ``node_id``, ``date``, ``touch_id``, ``type`` of every touchpoint."""
    node_id, user_id = source.keys(node, role="node"), source.keys(user, role="user", optional=True)
    touch, type_column = columns.get("touch"), columns.get("type", "type" if source.has("type") else None)
    read = {
        "user_id": user_id,
        "node_id": node_id,
        "date": source.instants(date, role="date"),
        "touch_id": node_id if touch is None else source.keys(touch, role="touch", unique=True),
        "type": ibis.null("string") if type_column is None else source.texts(type_column, role="type"),
    }
    source.check()
    read["user_id"], nobody = source.people(user, user_id)
    points = source.table.select(**read)
    if not nobody:
        return points
    warn(f"{source.argument}: {counted(nobody, 'rows')} without {user!r} {_verb(nobody)} left out")
    return points.filter(points.user_id.notnull())


def touch_types(touchpoints: ir.Table) -> list[str | None]:
    """Return the types of touchpoints; None stands for touchpoints without one."""
    return list(touchpoints.select("type").distinct().to_pyarrow()["type"].to_pylist())


def read_adjustments(source: Input, *, conversion: str, date: str) -> ir.Table:
    """Return ``event_id``, ``date``, ``value``, ``currency`` of amounts later than their conversion."""
    columns: dict[str, Any] = {
        "event_id": source.keys(conversion, role="conversion"),
        "date": source.instants(date, role="date"),
        "value": source.numbers("value", role=None, maximum=MOST_VALUE),
        "currency": ibis.null("string"),
    }
    if source.has("currency"):
        columns["currency"] = source.codes("currency")
    source.check()
    return source.table.select(**columns)


def read_observed(source: Input, *, user: str) -> ir.Table:
    """Return ``user_id``, ``since``, ``until`` and the covariates of every observed user."""
    columns = {
        "user_id": source.keys(user, role="user", unique=True),
        "since": source.instants("since", role=None),
        "until": source.instants("until", role=None, at_end=True),
    }
    source.check()
    others = [name for name in source.table.columns if name not in (user, "since", "until")]
    return source.table.select(**columns, **{name: source.table[name] for name in others})


def read_conversions(
    source: Input,
    *,
    user: str,
    date: str,
    conversion: str,
    value: str | None,
    currency: str | None,
    columns: Mapping[str, str],
) -> ir.Table:
    """Return one row per conversion with its value, currency and milestones."""
    source.identity = conversion
    read: dict[str, Any] = {
        "event_id": source.keys(conversion, role="conversion", unique=True),
        "user_id": source.keys(user, role="user", optional=True),
        "event_date": source.instants(date, role="date", at_end=True),
        "conversions": double(1.0),
        "value": ibis.null("float64"),
        "currency": ibis.null("string"),
    }
    if value is not None or source.has("value"):
        amounts = source.amounts(value or "value", role="value", maximum=MOST_VALUE)
        read["value"] = amounts.fill_null(0.0)
    if currency is not None or source.has("currency"):
        own = "currency" if source.has("currency") else None
        read["currency"] = source.currencies(currency, default=own)
    for name, column in columns.items():
        if name.startswith(MILESTONE):
            read[name] = source.instants(column, role=name, optional=True)
    if "kind" in columns:
        read["kind"] = source.texts(columns["kind"], role="kind")
    if "state" in columns:
        reached = source.instants(columns["state"], role="state", optional=True, at_end=True)
        read |= {OCCURRED: read["event_date"], STATE: reached}
    source.check()
    read["user_id"], nobody = source.people(user, read["user_id"])
    converted = source.table.select(**read)
    if source.has("currency") or (currency is not None and source.has(currency)):
        code = warn_of_missing_currencies(source.argument, converted)
        if code is not None:
            # Nothing has any currency.
            is_nothing = converted.value == 0
            of_nothing = converted.currency.coalesce(code)
            converted = converted.mutate(currency=is_nothing.ifelse(of_nothing, converted.currency))
    if nobody:
        lost = converted.filter(converted.user_id.isnull())
        sums = lost.group_by("currency").agg(value=lost.value.sum()).to_pyarrow().to_pylist()
        said = worth((row["currency"], row["value"]) for row in sums)
        rows = counted(nobody, "rows")
        warn(f"{source.argument}: {rows} without {user!r}{said} {_verb(nobody)} unattributed")
    return converted


def warn_of_missing_currencies(
    argument: str, amounts: ir.Table, *, value: str = "value", used: str | None = None
) -> str | None:
    """Warn of amounts without a currency beside others that have one; ``used`` is theirs in words.

    Returns
    -------
    str or None
        The currency of all others, if they have one.
    """
    if amounts[value].type().is_null():
        return None
    lost = amounts.currency.isnull() & (amounts[value].cast("float64") != 0)
    found = amounts.agg(
        known=amounts.currency.nunique(),
        code=amounts.currency.max(),
        lost=lost.cast("int64").sum(),
        total=lost.ifelse(amounts[value].cast("float64"), 0.0).sum(),
    )
    (row,) = found.to_pyarrow().to_pylist()
    if row["known"] and row["lost"]:
        currencies.warn_of_missing(argument, row["lost"], row["total"], used=used)
    return row["code"] if row["known"] == 1 else None


def _verb(count: int) -> str:
    return "is" if count == 1 else "are"


def anchored(conversions: ir.Table, anchor: str) -> ir.Table:
    """Keep conversions whose state has a date, and set ``event_date`` to the end of their windows."""
    if STATE not in conversions.columns:
        if anchor == "state":
            raise InvalidRequest(
                "anchor: 'state' requires a column with dates of the state; pass state=, or for frames "
                "columns={'state': …}"
            )
        return conversions
    reached = conversions.filter(conversions[STATE].notnull())
    return reached.mutate(event_date=reached[STATE]) if anchor == "state" else reached


_INSTANTS = "allowed: timestamps, dates or RFC 3339 text such as '2025-01-31T12:00:00Z'"
_MISSING = "is missing; drop those rows or fill them"
_DATE_FIRST = r"^\d{4}-\d{2}-\d{2}"
_DAY = rf"{_DATE_FIRST}$"
_MIDNIGHT = rf"{_DATE_FIRST}([ T]00:00(:00([.]0+)?)?)?$"
_READABLE = "text, integers of 64 bits, other numbers, flags, dates and timestamps"
#: Rows that a sample has on average.
_SAMPLE: Final = 2_000
#: Largest value of a conversion: squares of many still have a sum.
MOST_VALUE: Final = 1e100


# DuckDB casts between timestamps with and without a zone through the session's time zone, row by row; these
# two functions of DuckDB do the same in a tenth of the time.
@ibis.udf.scalar.builtin(signature=((dt.Timestamp(timezone="UTC"),), dt.int64))  # type: ignore[untyped-decorator]
def epoch_us(instant: Any) -> Any:
    """Return the microseconds since 1970 of an instant."""


@ibis.udf.scalar.builtin(signature=((dt.int64,), dt.Timestamp(scale=6)))  # type: ignore[untyped-decorator]
def make_timestamp(microseconds: Any) -> Any:
    """Return the instant in UTC, without a zone, from microseconds since 1970."""


@dataclass
class Input:
    """One table of the user with the checks to run on it.

    :meth:`keys`, :meth:`instants` and :meth:`numbers` return columns and register checks of their rows;
    :meth:`check` runs all checks in one pass. The role of a column is the argument that names it, or None if
    no argument does.
    """

    table: ir.Table
    argument: str
    untyped: frozenset[str] = frozenset()
    is_external: bool = False
    dialect: str = "duckdb"
    memory: pa.Table | None = None
    #: Column with ids of the rows, for errors.
    identity: str | None = None
    _needed: list[tuple[str, Any]] = field(default_factory=list)
    _suspects: list[tuple[str, str, Any]] = field(default_factory=list)
    _unique: list[tuple[str, Any]] = field(default_factory=list)
    _ids: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, backend: Any, frame: object, *, argument: str) -> Input:
        """Open a DataFrame of any library, a Parquet file or an Ibis table on an engine.

        Raises
        ------
        InvalidRequest
            If the value is none of these, has duplicate column names, or mixes types within a column.
        """
        if isinstance(frame, ir.Table):
            return cls(rebound(frame, backend), argument, is_external=True, dialect=backend.name)
        if isinstance(frame, str | Path):
            files = _parquet_files(Path(frame), argument)
            if backend.name == "duckdb":
                return cls(_view(files, argument, backend), argument)
            # Other engines may be elsewhere, without access to the file.
            frame = pa.concat_tables(map(parquet.read_table, files), promote_options="permissive")
        table = _arrow(frame, argument) if isinstance(frame, pd.DataFrame) else read_table(argument, frame)
        _distinct_names(table.column_names, argument)
        if not table.num_columns:
            raise InvalidRequest(f"{argument}: the table has no columns")
        for index, name in enumerate(table.column_names):
            table = table.set_column(index, name, sql_results.in_microseconds(table[name]))
        # Engines guess a type for columns without a value; text can be cast to any role.
        untyped = [column.name for column in table.schema if pa.types.is_null(column.type)]
        for name in untyped:
            index = table.column_names.index(name)
            table = table.set_column(index, name, table[name].cast(pa.string()))
        if backend.name != "duckdb":
            return cls(ibis.memtable(table), argument, frozenset(untyped), True, backend.name)
        backend.con.register(argument, table)
        return cls(backend.table(argument), argument, frozenset(untyped), memory=table)

    def of_users(self, rows: ir.Table, backend: Any, name: str, users: Input) -> ir.Table:
        """Return the rows that this table gives for users of another table, or all if that is not faster.

        Most users never convert. Arrow finds those who do in a third of the time in which DuckDB reads all.
        """
        if self.memory is None or users.memory is None or name not in users.memory.column_names:
            return rows
        keys, wanted = self.memory[name], users.memory[name]
        if not all(
            pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in (keys.type, wanted.type)
        ):
            return rows
        found = self.memory.filter(pc.is_in(keys, value_set=wanted.cast(keys.type)))
        backend.con.register(f"{self.argument}_of_users", found)
        near = backend.table(f"{self.argument}_of_users")
        return rows.op().replace({self.table.op(): near.op()}).to_expr()

    def keys(self, name: str, *, role: str | None, unique: bool = False, optional: bool = False) -> Any:
        """Return identifiers as text; integers stored as floats lose their ``.0``."""
        values = self._column(name, role) if optional else self._complete(name, role)
        kind = values.type()
        if kind.is_floating():
            if optional:
                values = values.isnan().ifelse(ibis.null(kind), values)
            # Not by floor(), which overflows on floats beyond 64 bits.
            most = 2 ** person_ids.EXACT[kind.nbytes]
            self.suspect(name, "is not a whole number", (values.abs() <= most) & (values % 1 != 0))
            self.suspect(name, person_ids.merges(kind.nbytes), (values.abs() > most) | values.isnan())
            values = values.cast("int64")
        elif not (kind.is_string() or kind.is_integer() or kind.is_uuid()):
            self._refuse(name, kind, "text or whole numbers")
        identifiers = values.cast("string")
        if unique:
            self._unique.append((name, identifiers))
        if unique or optional:
            self.expect_ids(name)
        return identifiers

    def expect_ids(self, name: str) -> None:
        """Register text ids, for :meth:`check` to find those that a spreadsheet has rounded."""
        if self.table[name].type().is_string():
            self._ids[name] = self.table[name]

    def people(self, name: str, identifiers: Any) -> tuple[Any, int]:
        """Return identifiers of people, null where they stand for nobody, and the number of such rows.

        Warns
        -----
        InputWarning
            If many rows have the same user.
        """
        folded = identifiers.strip().lower()
        rows = self.table.select(id=identifiers, word=person_ids.nobody(identifiers).ifelse("", folded))
        is_odd = rows.word.isin(["", *person_ids.SHARED])
        word = rows.id.isnull().ifelse("", is_odd.ifelse(rows.word, "others"))
        counts = _counts(rows.select(word=word), "word")
        total = sum(counts.values())
        missing = counts.pop("", 0)
        counts.pop("others", None)
        words = []
        if counts:
            others = rows.filter(rows.id.notnull(), ~rows.word.isin(["", *person_ids.SHARED]))
            small = others.agg(all=others.id.re_search(person_ids.SMALL_INTEGER).all()).to_pyarrow()
            words = person_ids.shared(counts, total, are_integers=small["all"][0].as_py())
            missing += sum(counts[word] for word in words)
        self._warn_of_crowds(name, rows.filter(rows.id.notnull(), ~rows.word.isin(["", *words])), total)
        if not missing:
            return identifiers, 0
        is_nobody = person_ids.nobody(identifiers)
        is_nobody = is_nobody | folded.isin(words) if words else is_nobody
        return is_nobody.ifelse(ibis.null("string"), identifiers), missing

    def somebody(self, name: str, identifiers: Any) -> Any:
        """Return identifiers, null where they always stand for nobody; a warning counts these."""
        is_nobody = person_ids.nobody(identifiers)
        named = self.table.filter(is_nobody).agg(count=identifiers.count(), example=identifiers.min())
        (found,) = named.to_pyarrow().to_pylist()
        if found["count"]:
            person_ids.warn_of_nobody(self.argument, name, found["count"], found["example"])
        return is_nobody.ifelse(ibis.null("string"), identifiers)

    def _check_rounded(self, name: str, values: Any) -> None:
        """Warn of text ids that a spreadsheet has rounded; refuse those beyond 2^53."""
        lost = values.re_search(person_ids.LOST).ifelse(values, None).min()
        rounded = self.table.filter(values.re_search(person_ids.ROUNDED))
        found = rounded.agg(count=values.count(), example=values.min(), lost=lost)
        (row,) = found.to_pyarrow().to_pylist()
        person_ids.check_rounded(self.argument, name, row["count"], row["example"], row["lost"])

    def _warn_of_crowds(self, name: str, rows: Any, total: int) -> None:
        """Warn of users with a tenth of the rows; a sample says whom to count.

        The sample has no seed, which some engines refuse. It misses a tenth by seven standard deviations.
        """
        if total < person_ids.FEW:
            return
        often = _counts(rows if total <= _SAMPLE else rows.sample(_SAMPLE / total), "id")
        candidates = [user for user, count in often.items() if count > min(total, _SAMPLE) / 20]
        if candidates:
            counts = _counts(rows.filter(rows.id.isin(candidates)), "id")
            person_ids.warn_of_crowds(self.argument, name, counts, total)

    def instants(self, name: str, *, role: str | None, optional: bool = False, at_end: bool = False) -> Any:
        """Return instants in UTC without a zone; instants without an offset are read as UTC.

        A day stands for its start, or ``at_end`` for its end: a date, a text without a time, and each of a
        column of midnights without a time zone, as pandas and databases write days.
        """
        values = self._column(name, role) if optional else self._complete(name, role)
        moments = self._moments(name, values)
        if not at_end:
            return moments
        end = moments + ibis.interval(days=1) - ibis.interval(microseconds=1)
        if values.type().is_date() or self._are_days(values):
            return end
        return values.re_search(_DAY).ifelse(end, moments) if values.type().is_string() else moments

    def _are_days(self, values: Any) -> bool:
        """Return whether a column of a file or frame is midnights without a time zone."""
        kind = values.type()
        if self.is_external or not (kind.is_string() or (kind.is_timestamp() and kind.timezone is None)):
            return False
        rows = self.table.select(at=values)
        is_midnight = (
            rows["at"].re_search(_MIDNIGHT) if kind.is_string() else rows["at"] == rows["at"].truncate("D")
        )
        # The first other instant ends the search.
        return not rows.filter(~is_midnight).limit(1).to_pyarrow().num_rows

    def _moments(self, name: str, values: Any) -> Any:
        """Return the values of a column as instants in UTC without a zone."""
        kind = values.type()
        if kind.is_timestamp() and kind.timezone is not None and self.dialect == "duckdb":
            return make_timestamp(epoch_us(values))
        if kind.is_timestamp() or kind.is_date():
            return values.cast("timestamp(6)")
        if self.is_external:
            self._refuse(name, kind, "timestamps or dates, in a session whose time zone is UTC")
        if not kind.is_string():
            self._refuse(name, kind, "timestamps, dates or RFC 3339 text (numbers: pandas.to_datetime first)")
        parsed = make_timestamp(epoch_us(values.try_cast("timestamp('UTC')")))
        readable = parsed.notnull() & values.re_search(_DATE_FIRST)
        self.suspect(name, f"is not an instant; {_INSTANTS}", values.notnull() & ~readable)
        return parsed

    def numbers(
        self, name: str, *, role: str | None, minimum: float | None = None, maximum: float = math.inf
    ) -> Any:
        """Return finite numbers as doubles; none is missing."""
        self._complete(name, role)
        doubles = self.amounts(name, role=role, maximum=maximum)
        if minimum is not None:
            self.suspect(name, f"is below {minimum:g}", doubles < minimum)
        return doubles

    def amounts(self, name: str, *, role: str | None = None, maximum: float) -> Any:
        """Return finite numbers as doubles, missing values included."""
        values = self._column(name, role)
        kind = values.type()
        if not (kind.is_numeric() or kind.is_boolean() or kind.is_null() or name in self.untyped):
            self._refuse(name, kind, "numbers")
        self.require_finite(name)
        doubles = values.cast("float64")
        self.suspect(name, f"is beyond {maximum:g} in size", doubles.abs() > maximum)
        return doubles

    def require_finite(self, name: str) -> None:
        """Refuse NaN and infinity, which numbers with a fixed scale have in PostgreSQL alone."""
        values = self.table[name]
        if values.type().is_floating() or (values.type().is_decimal() and self.dialect == "postgres"):
            values = values.cast("float64")
            self.suspect(name, "is not finite; drop those rows or fill them", values.isnan() | values.isinf())

    def flags(self, name: str, *, role: str | None) -> Any:
        """Return true or false."""
        values = self._complete(name, role)
        if not values.type().is_boolean():
            self._refuse(name, values.type(), "true and false")
        return values

    def texts(self, name: str, *, role: str) -> Any:
        """Return text, missing values included."""
        return self._column(name, role).cast("string")

    def currencies(self, given: str | None, *, default: str | None = None) -> Any:
        """Return currencies: those of a column, with a code instead of a column for rows without one."""
        code = None if given is None or self.has(given) else currencies.code_of(given)
        column = given if given is not None and code is None else default
        own = ibis.null("string") if column is None else self.codes(column)
        return own if code is None else own.coalesce(code)

    def codes(self, name: str) -> Any:
        """Return the codes of currencies that are written in any case, or by the sign of one currency."""
        codes = currencies.codes(self.texts(name, role="currency"))
        self.suspect(name, f"is not {currencies.NO_SIGN}", currencies.is_no_code(codes))
        return codes

    def has(self, name: str) -> bool:
        """Return whether the table has a column."""
        return name in self.table.columns

    def suspect(self, name: str, complaint: str, is_wrong: Any) -> None:
        """Register a condition under which a row is invalid, for :meth:`check`."""
        self._suspects.append((name, complaint, is_wrong))

    def check(self) -> None:
        """Run all checks in one pass, and raise the first failure."""
        # DuckDB counts the values of a column of a file by the file's statistics.
        missing = [self.table.count() - values.count() for _, values in self._needed]
        wrong = [is_wrong.cast("int64").sum().fill_null(0) for _, _, is_wrong in self._suspects]
        repeated = [identifiers.count() - identifiers.nunique() for _, identifiers in self._unique]
        problems = [(name, _MISSING, values.isnull()) for name, values in self._needed] + self._suspects
        counts: list[int] = []
        rounded = [ids.re_search(person_ids.ROUNDED).cast("int64").sum() for ids in self._ids.values()]
        if sums := [*missing, *wrong, *repeated, *rounded]:
            found = self.table.agg(**{f"check{index}": count for index, count in enumerate(sums)})
            counts = list(found.to_pyarrow().to_pylist()[0].values())
        last = len(problems) + len(repeated)
        for (name, ids), count in zip(self._ids.items(), counts[last:], strict=True):
            if count:
                self._check_rounded(name, ids)
        for (name, complaint, is_wrong), count in zip(problems, counts, strict=False):
            if count:
                raise self._error(is_wrong, count, name, complaint)
        for (name, identifiers), is_repeated in zip(self._unique, counts[len(problems) : last], strict=True):
            if is_repeated:
                keyed = self.table.select(identifier=identifiers)
                duplicates = keyed.group_by("identifier").agg(times=keyed.count())
                duplicates = duplicates.filter(duplicates.times > 1)
                count = duplicates.agg(rows=duplicates.times.sum()).to_pyarrow()["rows"][0].as_py()
                raise self._error(
                    identifiers.isin(duplicates["identifier"]), count, name, "occurs more than once"
                )

    def _error(self, is_wrong: Any, count: int, name: str, complaint: str) -> InvalidRequest:
        """Return an error with the number of invalid rows and the first one, or any if rows have no order."""
        if self.is_external:
            of_row = [name] if self.identity is None else [name, self.identity]
            rows = self.table.filter(is_wrong).select(list(dict.fromkeys(of_row)))
            row = rows.order_by(of_row[-1]).limit(1).to_pyarrow().to_pylist()[0]
            shown = f"for example {row[name]!r}"
            shown += f" of {self.identity} {row[self.identity]!r}" if len(row) > 1 else ""
        else:
            numbered = self.table.mutate(row_of_input=ibis.row_number())
            first = numbered.filter(is_wrong).order_by("row_of_input").limit(1)
            row = first.select("row_of_input", name).to_pyarrow().to_pylist()[0]
            shown = f"first in row {row['row_of_input']} ({row[name]!r})"
        kind = self.table[name].type()
        if kind.is_floating() and complaint == person_ids.merges(kind.nbytes) and math.isfinite(row[name]):
            return person_ids.inexact(self.argument, name, row[name], size=kind.nbytes)
        rows = "1 row is not allowed: its" if count == 1 else f"{count:,} rows are not allowed: their"
        return InvalidRequest(f"{self.argument}: {rows} {name!r} {complaint}, {shown}")

    def _column(self, name: str, role: str | None) -> Any:
        if name not in self.table.columns:
            wanted = f"{name!r}" if role is None else f"{name!r} for the {role}"
            is_further = role is not None and (role in FURTHER or role.startswith(MILESTONE))
            remedy = f"columns={{{role!r}: '…'}}" if is_further else f"{role}='…'"
            remedy = "" if role is None else f"; name another with {remedy}"
            remedy += ", or pass a code such as 'EUR'" if role == "currency" else ""
            raise InvalidRequest(
                f"{self.argument}: there is no column {wanted}{closest(name, self.table.columns)}; columns: "
                f"{', '.join(self.table.columns)}{remedy}"
            )
        return self.table[name]

    def _complete(self, name: str, role: str | None) -> Any:
        values = self._column(name, role)
        if self.memory is None or self.memory[name].null_count:
            self._needed.append((name, values))
        return values

    def _refuse(self, name: str, kind: Any, allowed: str) -> None:
        raise InvalidRequest(f"{self.argument}: the column {name!r} holds {kind}; allowed: {allowed}")


def _counts(rows: ir.Table, by: str) -> dict[str, int]:
    """Return the number of rows by the values of a column."""
    found = rows.group_by(by).agg(number=rows.count()).to_pyarrow()
    return dict(zip(found[by].to_pylist(), found["number"].to_pylist(), strict=True))


def _parquet_files(path: Path, argument: str) -> list[Path]:
    if not path.exists():
        raise InvalidRequest(f"{argument}: there is no file {str(path)!r}")
    if path.is_file() and path.suffix not in (".parquet", ".pq"):
        raise InvalidRequest(
            f"{argument}: {path.name!r} is not a .parquet or .pq file; read other files with pandas first"
        )
    files = [path] if path.is_file() else sorted(path.glob("*.parquet"))
    if not files:
        raise InvalidRequest(f"{argument}: there is no Parquet file in {str(path)!r}")
    for file in files:
        try:
            parquet.read_schema(file)
        except (pa.ArrowException, OSError) as error:
            message = f"{argument}: {file.name!r} cannot be read: {error}"
            raise InvalidRequest(message, field=argument) from error
    return files


def _view(files: list[Path], argument: str, backend: Any) -> ir.Table:
    """Return Parquet files as a view of DuckDB, with instants in microseconds."""
    changed = [
        f"make_timestamp{'tz' if field.type.tz else ''}(epoch_ns({quoted(field.name)}) // 1000) "
        f"AS {quoted(field.name)}"
        for field in parquet.read_schema(files[0])
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns"
    ]
    if not changed:
        return backend.read_parquet(files, table_name=argument)
    paths = ", ".join(literal(str(file)) for file in files)
    rows = f"SELECT * REPLACE ({', '.join(changed)}) FROM read_parquet([{paths}])"
    backend.con.execute(f"CREATE TEMP VIEW {quoted(argument)} AS {rows}")
    return backend.table(argument)


def _arrow(frame: pd.DataFrame, argument: str) -> pa.Table:
    frame = with_index(frame)
    names = [str(name) for name in frame.columns]
    _distinct_names(names, argument)
    return pa.table(
        {name: _arrow_column(frame.iloc[:, index], name, argument) for index, name in enumerate(names)}
    )


def _arrow_column(values: pd.Series[Any], name: str, argument: str) -> Any:
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError) as error:
        kinds = sorted({type(value).__name__ for value in values.dropna()})
        message = f"{argument}: the column {name!r} mixes {', '.join(kinds)}; allowed: values of one type"
        if len(kinds) < 2:
            message = (
                f"{argument}: the column {name!r} cannot be read: {error} (its type is {values.dtype}); "
                f"allowed: {_READABLE}"
            )
        raise InvalidRequest(message, field=argument) from error


def _distinct_names(names: list[str], argument: str) -> None:
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise InvalidRequest(f"{argument}: the columns {', '.join(duplicates)} occur more than once")
