"""A batch of rows: validates and converts their cells in SQL, and inserts them into the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from attrib_ds.contract import identifiers
from attrib_ds.errors import InvalidRequest, closest
from attrib_ds.records.person_ids import EXACT, merges
from attrib_ds.records.sources import ROW, Source, literal, quoted
from attrib_ds.service.identity.identities import IdentitySource, identities_query
from attrib_ds.service.identity.tombstones import IDENTITY, USER, buried_rows
from attrib_ds.service.store.tables import TABLES, HexIds

#: Earlier instants are errors, such as seconds read as milliseconds.
_EARLIEST: Final = "TIMESTAMP '1990-01-01 00:00:00'"
_NO_INSTANT: Final = "is not a date with a time, such as 2025-01-31T12:00:00Z"
_LONGEST_SHOWN: Final = 80
#: JSON syntax that DuckDB accepts and the standard does not, and JSON strings, where it is text.
_LENIENT: Final = r"(?i)nan|inf|,\s*[\]}]"
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
#: Pattern of the ids of nodes, campaigns and outlays.
NAME: Final = ".{1,128}"
NAME_FORM: Final = "text of 1 to 128 characters"
CURRENCY: Final = identifiers.PATTERN


@dataclass(frozen=True)
class Staged:
    """The validated rows, in a temporary database.

    Parameters
    ----------
    relation : str
        ``row``, then the typed columns, of valid and invalid rows.
    problems : str
        ``row``, ``position`` and ``reason``: one row per violation.
    columns : tuple of str
        The typed columns.
    source_columns : frozenset of str
        Columns of the source.
    count : int
        Number of readable rows.
    """

    relation: str
    problems: str
    columns: tuple[str, ...]
    source_columns: frozenset[str]
    count: int


class Checks:
    """Collects the columns of one kind of record and their validation rules.

    Each method named after a type of value adds one column. The SQL of rules has two names per column of the
    source: the typed value as ``"name"``, and the original value as trimmed text as ``"original name"``.

    Parameters
    ----------
    source : Source
        The rows.
    argument : str
        Name of the source in error messages.
    is_verbatim : bool, default False
        Whether names keep the blanks around them, as in a mirror, where they tell records apart.
    """

    def __init__(self, source: Source, *, argument: str, is_verbatim: bool = False) -> None:
        self._is_verbatim = is_verbatim
        self.source = source
        self.argument = argument
        self._originals: dict[str, str] = {}
        self._inner: dict[str, str] = {}
        self._outer: dict[str, str] = {}
        self._rules: list[tuple[str, str]] = []
        for column in source.columns:
            self._originals[f"original {column}"] = source.word(column)

    def has(self, column: str) -> bool:
        """Return whether the source has a column."""
        return column in self.source.types

    @property
    def stored(self) -> Collection[str]:
        """The columns that are stored."""
        return self._outer.keys()

    def refuse_unknown(self, allowed: Collection[str], objects: Collection[str] = ()) -> None:
        """Refuse unknown columns; columns of whole objects are checked per row."""
        for column in self.source.columns:
            if column in allowed:
                continue
            if column not in objects:
                raise InvalidRequest(
                    f"{self.argument}: the column {column!r} is not known{closest(column, allowed)}; "
                    f"allowed: {', '.join(sorted(allowed))}"
                )
            self.rule(f"{original(column)} IS NOT NULL", f"{labelled_value(column)} || ' is not an object'")

    def not_later(self, name: str, now: str) -> None:
        """Refuse instants of a column that are more than a day after SQL ``now``, as for events."""
        reason = f"{labelled_value(name)} || ' is more than 24 hours in the future'"
        self.rule(f"{quoted(name)} > {now} + INTERVAL 24 HOUR", reason)

    def rule(self, broken: str, reason: str) -> None:
        """Add a rule: rows for which the SQL ``broken`` is true violate it; ``reason`` is SQL text."""
        self._rules.append((broken, reason))

    def column(self, name: str, value: str, *, final: str | None = None, always: bool = False) -> None:
        """Add a column with its value for rules, and its stored value ``final`` if that differs.

        A column missing from the source is stored only if it has a ``final`` value or ``always`` is set:
        empty columns cost time.
        """
        self.value(name, value)
        if final is not None or always or self.has(name):
            self._outer[name] = final or quoted(name)

    def value(self, name: str, value: str) -> None:
        """Add a value for rules and other columns that is not stored."""
        # Each text is trimmed once.
        word = self.source.word(name) if self.has(name) else ""
        self._inner[name] = value.replace(word, original(name)) if word else value
        self._originals.setdefault(f"original {name}", "CAST(NULL AS VARCHAR)")

    def derive(self, name: str, final: str) -> None:
        """Add a stored column computed from others."""
        self._outer[name] = final

    def text(self, name: str, *, always: bool = False) -> None:
        """Add a column of unchanged text."""
        self._typed(name, self.source.text, "VARCHAR", always=always)

    def word(
        self,
        name: str,
        *,
        pattern: str | None = None,
        form: str = "",
        required: bool = False,
        lower: bool = False,
        default: str | None = None,
        always: bool = False,
    ) -> None:
        """Add a column of trimmed text that fully matches a pattern, if given."""
        read = (lambda column: f"lower({self.source.word(column)})") if lower else self.source.word
        if self._is_verbatim and (pattern or ".").startswith("."):
            read = lambda column: f"NULLIF({self.source.text(column)}, '')"  # noqa: E731
        if self.source.types.get(name) in {"DOUBLE", "FLOAT"}:
            size = 4 if self.source.types[name] == "FLOAT" else 8
            is_inexact = f"abs(TRY_CAST({quoted(f'original {name}')} AS DOUBLE)) > {2 ** EXACT[size]}"
            self.rule(is_inexact, f"{labelled_value(name)} || {literal(f': {merges(size)}')}")
        # The dot matches line breaks too.
        wrong = f"NOT regexp_full_match({quoted(name)}, {literal(pattern)}, 's')" if pattern else None
        self._typed(
            name, read, "VARCHAR", f"is not {form}", wrong, required=required, default=default, always=always
        )

    def currency(self, name: str, *, required: bool = False) -> None:
        """Add a column of codes of currencies; it is there even if the source lacks it."""
        wrong, form = f"NOT regexp_full_match({quoted(name)}, '{CURRENCY}')", f"is not {identifiers.NO_SIGN}"
        read = lambda column: currency(self.source.word(column))  # noqa: E731
        self._typed(name, read, "VARCHAR", form, wrong, required=required, always=True)

    def choice(self, name: str, allowed: Collection[str], *, default: str | None = None) -> None:
        """Add a column of an enumeration; required without a default."""
        self.word(name, required=default is None, default=literal(default) if default else None)
        if self.has(name):
            options = ", ".join(literal(option) for option in allowed)
            self._rule_of_form(
                name, f"{quoted(name)} NOT IN ({options})", f"is not one of {', '.join(allowed)}"
            )

    def instant(
        self, name: str, *, required: bool = False, recent: bool = False, default: str | None = None
    ) -> None:
        """Add a column of UTC instants; ``recent`` refuses those before 1990."""

        def read(column: str) -> str:
            return truncated(self.source.instant(column))

        self._typed(name, read, "TIMESTAMP", _NO_INSTANT, required=required, default=default)
        if recent and self.has(name):
            self.rule(f"{quoted(name)} < {_EARLIEST}", f"{labelled_value(name)} || ' is before 1990'")

    def number(self, name: str, *, low: float | None = None, high: float | None = None) -> None:
        """Add a column of finite numbers within bounds."""
        infinite = f"{quoted(name)} IS NULL OR NOT isfinite({quoted(name)})"
        self._typed(name, self.source.number, "DOUBLE", "is not a finite number", infinite)
        if low is not None and self.has(name):
            outside = f"{quoted(name)} < {low}" + ("" if high is None else f" OR {quoted(name)} > {high}")
            allowed = f"{low:g} or more" if high is None else f"from {low:g} to {high:g}"
            self._rule_of_form(name, f"isfinite({quoted(name)}) AND ({outside})", f"is not {allowed}")

    def count(self, name: str) -> None:
        """Add a column of whole numbers of 0 or more."""

        def read(column: str) -> str:
            number = self.source.number(column)
            return f"CASE WHEN {number} % 1 = 0 AND {number} >= 0 THEN TRY_CAST({number} AS BIGINT) END"

        self._typed(name, read, "BIGINT", "is not a whole number of 0 or more")

    def flag(self, name: str, *, default: str | None = None, form: str = "is not true or false") -> None:
        """Add a column of booleans, also written 1 and 0."""
        self._typed(name, self.source.flag, "BOOLEAN", form, default=default)

    def amount(self, name: str, *, required: bool = False) -> None:
        """Add a column of amounts of money, exact to 6 digits after the point."""
        form = "is not an amount of at most 18 digits before and 6 after the point"
        self._typed(name, self.source.amount, "DECIMAL(24,6)", form, required=required)

    def json(self, name: str, kind: str = "OBJECT", expected: str = "a JSON object") -> None:
        """Add a column of JSON objects, or of another type of JSON, as text."""

        def read(column: str) -> str:
            text = f"NULLIF({self.source.text(column)}, '')"
            return f"CASE WHEN {is_json(text, kind)} THEN {text} END"

        self._typed(name, read, "VARCHAR")
        if self.has(name):
            is_null = f"{original(name)} <> 'null' AND {quoted(name)} IS NULL"
            self.rule(is_null, f"{labelled_value(name)} || {not_json(original(name), expected)}")

    def texts(self, name: str) -> None:
        """Add a column of lists of text."""

        def read(column: str) -> str:
            if self.source.types[column].endswith("]"):
                return f"CAST({quoted(column)} AS VARCHAR[])"
            text = self.source.word(column)
            return f"TRY_CAST(CASE WHEN {is_json(text)} THEN CAST({text} AS JSON) END AS VARCHAR[])"

        self._typed(name, read, "VARCHAR[]", "is not a list of texts")

    def _typed(
        self,
        name: str,
        read: Callable[[str], str],
        kind: str,
        form: str = "",
        wrong: str | None = None,
        *,
        required: bool = False,
        default: str | None = None,
        always: bool = False,
    ) -> None:
        """Add a column of a type, and the rule that cells have its form; null is wrong by default."""
        value = read(name) if self.has(name) else f"CAST(NULL AS {kind})"
        final = f"coalesce({quoted(name)}, {default})" if default else None
        self.column(name, value, final=final, always=always or required)
        if required:
            self.require(name)
        if self.has(name) and (wrong or (form and kind != "VARCHAR")):
            self._rule_of_form(name, wrong or f"{quoted(name)} IS NULL", form)

    def require(self, name: str) -> None:
        """Add the rule that a column is not null."""
        self.rule(f"{original(name)} IS NULL", literal(f"{name}: is missing"))

    def project(self, project_id: str) -> None:
        """Add the column ``projectId``; other projects are refused."""
        self.derive("projectId", literal(project_id))
        if self.has("projectId"):
            other = f"{original('projectId')} <> {literal(project_id)}"
            reason = f"{labelled_value('projectId')} || {literal(f' is not this project, {project_id!r}')}"
            self.rule(other, reason)

    def _reject_repeated(self, connection: Connection, staged: Staged, name: str, order: str) -> None:
        """Reject duplicate ids; of the otherwise valid rows, the first in an order is loaded."""
        if name not in staged.source_columns:
            return
        column = quoted(name)
        is_valid = f"row NOT IN (SELECT row FROM {staged.problems})"
        first = f"coalesce(arg_min(row, ({order}, row)) FILTER ({is_valid}), min(row))"
        several = f"SELECT {column} FROM {staged.relation} GROUP BY {column} HAVING count(*) > 1"
        repeated = (
            f"SELECT {column}, {first} AS first_row FROM {staged.relation} "
            f"WHERE {column} IN ({several}) GROUP BY {column}"
        )
        said = f"{quote_text(column)} || ' is also the id of row ' || (first_row + {self.source.first})"
        reason = f"{literal(f'{name}: ')} || {said}"
        connection.execute(
            f"INSERT INTO {staged.problems} SELECT row, 1000, {reason} "
            f"FROM {staged.relation} JOIN ({repeated}) USING ({column}) "
            f"WHERE row > first_row OR (row < first_row AND {is_valid})"
        )

    def stage(self, connection: Connection, *, id: str, order: str = "row") -> Staged:
        """Create the tables of validated rows and of violations.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection
            Connection to the temporary database with the source.
        id : str
            Column that is unique.
        order : str, default "row"
            SQL for the order of rows with the same id, of which the first counts.

        Returns
        -------
        Staged
            The tables.
        """
        place = self.source.relation.rsplit(".", 1)[0]
        staged = Staged(
            relation=f"{place}.staged",
            problems=f"{place}.problems",
            columns=tuple(self._outer),
            source_columns=frozenset(self.source.columns),
            count=self.source.rows,
        )
        checked = (
            f"(SELECT {quoted(ROW)} AS row, {', '.join(map(quoted, self._originals))}, "
            f"{_selected(self._inner)} FROM (SELECT *, {_selected(self._originals)} "
            f"FROM {self.source.relation}) AS trimmed) AS checked"
        )
        broken = " OR ".join(f"coalesce({rule}, false)" for rule, _ in self._rules) or "false"
        connection.execute(
            f"CREATE TABLE {staged.relation} AS "
            f"SELECT row, {_selected(self._outer)}, {broken} AS broken FROM {checked}"
        )
        connection.execute(f"CREATE TABLE {staged.problems} (row BIGINT, position BIGINT, reason VARCHAR)")
        ((any_broken,),) = connection.execute(f"SELECT bool_or(broken) FROM {staged.relation}").fetchall()
        if any_broken:
            reasons = [
                f"CASE WHEN {rule} THEN coalesce({reason}, 'is not valid') END"
                for rule, reason in self._rules
            ]
            connection.execute(
                f"INSERT INTO {staged.problems} SELECT row, position, reasons[position] AS reason FROM ("
                f"SELECT row, reasons, unnest(range(1, len(reasons) + 1)) AS position FROM ("
                f"SELECT row, [{', '.join(reasons)}]::VARCHAR[] AS reasons FROM {checked} "
                f"WHERE row IN (SELECT row FROM {staged.relation} WHERE broken)))"
                f"WHERE reason IS NOT NULL"
            )
        self._reject_repeated(connection, staged, id, order)
        return staged

    def _rule_of_form(self, name: str, wrong: str, form: str) -> None:
        self.rule(
            f"{original(name)} IS NOT NULL AND ({wrong})", f"{labelled_value(name)} || {literal(f' {form}')}"
        )


def original(column: str) -> str:
    """Return SQL for the original value of a column, as trimmed text."""
    return quoted(f"original {column}")


def is_json(text: str, kind: str | None = None) -> str:
    """Return SQL for whether a text is standard JSON, of a type if given.

    DuckDB also accepts NaN, Infinity and trailing commas.

    Examples
    --------
    >>> import duckdb
    >>> texts = ['{"a": "NaN,]"}', '{"a": NaN}', '[1, ]', '{']
    >>> [duckdb.execute(f"SELECT {is_json('?1')}", [text]).fetchone()[0] for text in texts]
    [True, False, False, False]
    """
    is_valid = f"(json_valid({text}) AND NOT {_is_lenient(text)})"
    return is_valid if kind is None else f"CASE WHEN {is_valid} THEN json_type({text}) = '{kind}' END"


def not_json(text: str, expected: str) -> str:
    """Return SQL for the reason why a text is not the expected JSON."""
    lenient = literal(" has NaN, Infinity or a trailing comma, which JSON does not allow")
    otherwise = literal(f" is not {expected}")
    return f"CASE WHEN json_valid({text}) AND {_is_lenient(text)} THEN {lenient} ELSE {otherwise} END"


def _is_lenient(text: str) -> str:
    # Most texts do not match the first pattern, which is cheaper than removing strings.
    outside = f"regexp_replace({text}, {literal(_STRING)}, '', 'g')"
    suspicious = literal(_LENIENT)
    return f"(regexp_matches({text}, {suspicious}) AND regexp_matches({outside}, {suspicious}))"


def quote_text(text: str) -> str:
    """Return SQL for the text in quotation marks, shortened for a message."""
    short = f"left({text}, {_LONGEST_SHOWN - 1}) || '…'"
    return f"'''' || CASE WHEN length({text}) > {_LONGEST_SHOWN} THEN {short} ELSE {text} END || ''''"


def truncated(moment: str) -> str:
    """Return SQL for an instant of type TIMESTAMP, truncated to milliseconds."""
    return f"date_trunc('milliseconds', {moment})"


def currency(word: str) -> str:
    """Return SQL for the code of a currency that is written in any case, or as its sign."""
    signs = " ".join(f"WHEN {literal(sign)} THEN {literal(code)}" for sign, code in identifiers.SIGNS.items())
    return f"CASE {word} {signs} ELSE upper({word}) END"


def labelled_value(column: str) -> str:
    """Return SQL for the name of a column and its original value."""
    return f"{literal(f'{column}: ')} || {quote_text(original(column))}"


def _selected(columns: dict[str, str]) -> str:
    return ", ".join(f"{value} AS {quoted(name)}" for name, value in columns.items())


#: Violations found in the writing transaction, by comparison with stored records.
CONFLICTS: Final = pa.schema([pa.field("row", pa.int64()), pa.field("reason", pa.string())])

#: Creation dates, which never change; by default the time of loading.
_CREATION_DATES: Final = frozenset({"createdAt", "ingestedAt"})


@dataclass(frozen=True)
class Project:
    """Properties of the project that loaders need.

    Parameters
    ----------
    project_id, currency : str
        Id and currency.
    now : str
        SQL for the time of loading.
    ids : HexIds
        Generates ids.
    """

    project_id: str
    currency: str
    now: str
    ids: HexIds
    is_mirror: bool = False


@dataclass(frozen=True)
class Batch:
    """Validated rows and the function that inserts them.

    Parameters
    ----------
    staged : Staged
        The validated rows.
    id_column : str
        Column that identifies a record.
    insert : callable
        Takes a connection inside a transaction and a :class:`ValidRows`; returns numbers of inserted records.
    """

    staged: Staged
    id_column: str
    insert: Callable[[Connection, ValidRows], Mapping[str, int]]


@dataclass(frozen=True)
class ValidRows:
    """The valid rows of a batch, while it is inserted.

    Parameters
    ----------
    staged : Staged
        All rows.
    conflicts : str
        Table of violations found in the transaction.
    unchanged : str
        Table of unchanged rows, from :meth:`replace_stored`.
    is_replacing : bool, default False
        Whether rows replace stored records with the same ids.
    """

    staged: Staged
    conflicts: str = "temp.conflicting_rows"
    unchanged: str = "temp.unchanged_rows"
    is_replacing: bool = False

    @property
    def rows(self) -> str:
        """The valid rows as a relation in SQL, for a FROM clause."""
        return self.among(self.staged.relation)

    def among(self, relation: str) -> str:
        """Return the valid rows of a relation, which has the column ``row``."""
        return (
            f"(SELECT * FROM {relation} ANTI JOIN {self.staged.problems} USING (row) "
            f"ANTI JOIN {self.conflicts} USING (row) ANTI JOIN {self.unchanged} USING (row))"
        )

    def reject(self, connection: Connection, query: str) -> None:
        """Reject the rows of a query of ``row`` and ``reason``."""
        connection.execute(f"INSERT INTO {self.conflicts} (row, reason) {query}")

    def reject_stored(self, connection: Connection, table: str, name: str) -> None:
        """Reject rows with the id of a stored record, unless rows replace stored records."""
        if name in self.staged.source_columns and not self.is_replacing:
            reason = f"{literal(f'{name}: ')} || '''' || {quoted(name)} || ''' is already loaded'"
            stored = f"SELECT {quoted(name)} FROM {table}"
            self.reject(
                connection,
                f"SELECT row, {reason} FROM {self.staged.relation} WHERE {quoted(name)} IN ({stored})",
            )

    @contextmanager
    def replace_stored(
        self,
        connection: Connection,
        table: str,
        name: str,
        *,
        changed: str | None = None,
        filled: Collection[str] = (),
        differing: str | None = None,
    ) -> Iterator[str]:
        """Delete stored records that rows replace, and skip unchanged rows.

        Rows are unchanged if the stored record is equal, apart from creation dates, or changed later.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection
            Inside the writing transaction, after all rejections.
        table, name : str
            Table of the stored records, and column of their ids.
        changed : str, optional
            Column with the date of the last change.
        filled : collection of str
            Columns that the service fills where a row has null.
        differing : str, optional
            Query of ``row`` for rows that differ from their stored record in another table.

        Yields
        ------
        str
            Table of the deleted records, until the block ends.
        """
        replaced = "temp.replaced"
        pairs = (
            f"{self.rows} AS loaded JOIN {table} AS stored ON stored.{quoted(name)} = loaded.{quoted(name)}"
        )
        if not self.is_replacing:
            pairs = f"{pairs} WHERE false"
        else:
            compared = [
                column
                for column in TABLES[table]
                if column in self.staged.columns and column not in _CREATION_DATES
            ]
            is_equal = " AND ".join(
                f"(stored.{quoted(column)} IS NOT DISTINCT FROM loaded.{quoted(column)}"
                f"{f' OR loaded.{quoted(column)} IS NULL' if column in filled else ''})"
                for column in compared
            )
            if differing is not None:
                is_equal += f" AND loaded.row NOT IN ({differing})"
            is_unchanged = f"({is_equal})"
            if changed in self.staged.columns:
                is_unchanged += f" OR coalesce(stored.{quoted(changed)} > loaded.{quoted(changed)}, false)"
            connection.execute(f"INSERT INTO {self.unchanged} SELECT row FROM {pairs} WHERE {is_unchanged}")
        connection.execute(
            f"CREATE TEMP TABLE {replaced.removeprefix('temp.')} AS SELECT stored.* FROM {pairs}"
        )
        connection.execute(
            f"DELETE FROM {table} WHERE {quoted(name)} IN (SELECT {quoted(name)} FROM {replaced})"
        )
        yield replaced
        connection.execute(f"DROP TABLE {replaced}")

    def insert(
        self,
        connection: Connection,
        table: str,
        *,
        values: Mapping[str, str] | None = None,
        rows: str | None = None,
    ) -> int:
        """Insert the valid rows; ``values`` holds SQL for columns that differ from the row."""
        expressions = values or {}
        columns = [name for name in TABLES[table] if name in expressions or name in self.staged.columns]
        selected = ", ".join(expressions.get(name, quoted(name)) for name in columns)
        names = ", ".join(quoted(name) for name in columns)
        inserted = connection.execute(
            f"INSERT INTO {table} ({names}) SELECT {selected} FROM {rows or self.rows} AS valid"
        )
        return int(inserted.fetchall()[0][0])


def insert_implicit_nodes(
    connection: Connection,
    valid: ValidRows,
    project: Project,
    *,
    column: str,
    kind: str,
    rows: str | None = None,
) -> int:
    """Create missing nodes that valid rows refer to; return their number."""
    inserted = connection.execute(
        "INSERT INTO nodes (_id, projectId, type, name, path, active, createdAt, updatedAt, implicit) "
        f"SELECT id, {literal(project.project_id)}, {literal(kind)}, id, [], true, {project.now}, "
        f"{project.now}, true FROM (SELECT DISTINCT {quoted(column)} AS id FROM {rows or valid.rows}) "
        "WHERE id IS NOT NULL AND id NOT IN (SELECT _id FROM nodes) ORDER BY id"
    )
    return int(inserted.fetchall()[0][0])


def reject_erased(connection: Connection, valid: ValidRows, source: IdentitySource) -> None:
    """Reject rows of people who were erased after the date of the row.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside the transaction that writes the rows.
    valid : ValidRows
        The batch.
    source : IdentitySource
        Its valid rows.
    """
    marks = f"SELECT row, {literal(USER)} AS kind, userId AS value, {source.date} AS seen FROM {source.rows}"
    if source.data.strip('"') in valid.staged.columns:
        identities = identities_query(connection, source, also="row")
        marks += f" UNION ALL SELECT row, {literal(IDENTITY)} || kind, value, seen FROM ({identities})"
    erased = buried_rows(connection, f"({marks})")
    if erased is not None:
        reason = literal("userId: belongs to a person who was erased after this date")
        valid.reject(connection, f"SELECT row, {reason} FROM ({erased})")
