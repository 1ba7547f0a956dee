"""How users' files are understood: what their users decide, and what was found and is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

from attrib_ds.errors import InvalidRequest, check_choice, closest
from attrib_ds.importers.columns import OPTIONS, Named, folded
from attrib_ds.records.frames import Frame, FrameOrPath
from attrib_ds.records.written_values import zones_of

File: TypeAlias = Literal["touchpoints", "conversions", "spend", "paths"]
#: Files of which a reading may say how each is written.
_FILES: Final = ("touchpoints", "conversions", "spend")
SHEETS: Final = {
    "touchpoints": "sheet",
    "conversions": "conversion_sheet",
    "spend": "spend_sheet",
    "paths": "sheet",
}
#: Words for several people who share a path.
_ACCOUNTS: Final = ("account", "accountid", "company", "companyid", "organisation", "organization")
#: Arguments of readings in messages.
_ARGUMENT: Final = re.compile(
    r"(?<!\()\b(columns=\{[^}]*\}|(?<!with )dayfirst=(?:True|False)"
    r"|(?:aggregate|ignore_case|order_sources)=(?:True|False)|(?:decimal|encoding|timezone|(?:\w+_)?sheet)='[^']*')"
)


def _is_named(column: object) -> bool:
    """Return whether a value is a column, or a list of columns."""
    return isinstance(column, str) or (
        isinstance(column, list | tuple) and all(isinstance(each, str) for each in column)
    )


#: What says how files are written: whether a value is allowed, and what is.
_WAYS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "dayfirst": (lambda value: isinstance(value, bool), "True, False or None"),
    "decimal": (lambda value: value in (".", ","), "'.' or ','"),
    "encoding": (lambda value: isinstance(value, str), "name of an encoding"),
    "timezone": (
        lambda value: isinstance(value, str) and len(zones_of(value)) == 1,
        "an offset or a place, such as '+05:30' or 'Europe/Paris'",
    ),
}


@dataclass(frozen=True)
class Formats:
    """How one file is written, as far as its content does not tell.

    Attributes
    ----------
    dayfirst : bool, optional
        Whether 03/04/2025 is in April.
    decimal : {".", ","}, optional
        Decimal mark of numbers in text.
    encoding : str, optional
        Encoding of delimited text that is not UTF-8.
    timezone : str, optional
        Zone of times without an offset.
    sheet : str, optional
        Sheet of a workbook; by default the first.
    """

    dayfirst: bool | None = None
    decimal: str | None = None
    encoding: str | None = None
    timezone: str | None = None
    sheet: str | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read files of touchpoints, conversions and spend.

    A reading has the decisions of a user; the files decide the rest. :func:`attrib_ds.preview_files` and
    ``journeys.reading`` have the complete reading.

    Parameters
    ----------
    columns : mapping of str to str or list of str, optional
        Column by role (``user``, ``device``, ``node``, ``date``, ``touch``, ``conversion``, ``flag``,
        ``value``, ``refund``, ``quantity``, ``currency``), for columns that are not found by their names and
        values; ``conversion_user`` and ``conversion_date`` if conversions have others than touchpoints;
        ``spend`` and ``spend_node`` for files of spend. The amounts of ``refund`` are subtracted from the
        values; with an empty list, ``{"refund": []}``, nothing is subtracted. By default users are in a
        column that both tables have, if there is one, and devices are used too. Several columns for ``node``
        make a tree: those of a source, medium, campaign, ad group, ad or keyword as in exports, others as the
        levels channel, campaign, adset, ad and keyword, in the order given. By default a column of nodes or
        channels, and one of campaigns beside it, else the columns of source, medium and campaign, or of a
        network, its publishers and their placements. A day and a time of day in two columns are one instant
        (``{"date": ["day", "clock"]}``). Times without an offset are UTC.
        Unit prices (``price``, ``unit_price``) are multiplied by a column of quantities; if you name
        ``value``, only if you also name ``quantity``.
    dayfirst : bool or mapping of str to bool, optional
        Whether dates such as 03/04/2025 begin with the day (true) or the month (false), for all files or by
        file (``"touchpoints"``, ``"conversions"``, ``"spend"``). By default, a date with only one reading
        decides for its column. Without such a date, the dates are refused.
    decimal : {".", ","} or mapping of str to {".", ","}, optional
        Decimal mark of numbers in text, for all files or by file. By default a number such as 99,90 or
        1,030.50 decides for its column; a column with only numbers such as 1.000 is refused.
    encoding : str or mapping of str to str, optional
        Encoding of files of text that are neither UTF-8 nor UTF-16, such as ``"cp1252"`` of Windows, for all
        files or by file. By default the encoding that gives real words; ``"utf-8"`` rejects the rows that
        cannot be read.
    timezone : str or mapping of str to str, optional
        Offset or zone of times without one, such as ``"+05:30"`` or ``"Europe/Paris"``, for all files or by
        file. By default the zone that the name of their column or the words behind them tell, else UTC.
        Names that several places share, such as IST, are refused if neither currencies, countries nor phone
        numbers in the file show which place it is.
    sheet, conversion_sheet, spend_sheet : str, optional
        Sheets of the touchpoints, of the conversions and of the spend in XLSX files; by default the first.
    aggregate : bool, default False
        Whether to add up the rows of a conversion, such as the lines of an order: the sum of their values at
        the earliest date. Rows of several users or in several currencies are refused. If one row of a
        conversion cannot be read, all of them are rejected. By default lines of one instant with different
        products and amounts are added up; other rows of one id are refused.
    ignore_case : bool, default True
        Whether names of nodes that differ by case only, such as Google and google, are one, with the most
        frequent spelling.
    stitch : bool, default True
        Whether to assign rows without a user to the user seen on the same device, if there is exactly one and
        the tables have columns of users and of devices.
    order_sources : bool, default False
        Whether the sources that conversions carry themselves, such as UTM parameters beside an order, are
        touchpoints at the time of the conversion, after those of the touchpoints.

    Raises
    ------
    InvalidRequest
        If a role, a file or a decimal mark is not one of those above.

    Examples
    --------
    >>> import attrib_ds as at
    >>> reading = at.Reading(columns={"user": "Kunde"}, dayfirst=True)
    >>> at.Reading.from_json(reading.to_json()) == reading
    True
    """

    columns: Mapping[str, Named] = field(default_factory=dict)
    dayfirst: bool | Mapping[str, bool] | None = None
    decimal: str | Mapping[str, str] | None = None
    encoding: str | Mapping[str, str] | None = None
    timezone: str | Mapping[str, str] | None = None
    sheet: str | None = None
    conversion_sheet: str | None = None
    spend_sheet: str | None = None
    aggregate: bool = False
    ignore_case: bool = True
    stitch: bool = True
    order_sources: bool = False

    def __post_init__(self) -> None:
        given = self.columns
        if not isinstance(given, Mapping | None) or not all(map(_is_named, (given or {}).values())):
            raise InvalidRequest.value("columns", given, "column, or list of columns, by role")
        object.__setattr__(self, "columns", dict(given or {}))
        for role, column in self.columns.items():
            if folded(role) in _ACCOUNTS:
                raise InvalidRequest(
                    f"columns: {role!r} is not a role; if several people of an account share a path, name "
                    f"its column as the user: columns={{'user': {column!r}}}",
                    field="columns",
                )
            check_choice("columns", role, OPTIONS)
        for name, (is_allowed, allowed) in _WAYS.items():
            way = getattr(self, name)
            for file in way if isinstance(way, Mapping) else ():
                check_choice(name, file, _FILES)
            for each in way.values() if isinstance(way, Mapping) else (way,):
                if each is not None and not is_allowed(each):
                    raise InvalidRequest.value(name, each, allowed)
        for name in ("sheet", "conversion_sheet", "spend_sheet"):
            if not isinstance(sheet := getattr(self, name), str | None):
                raise InvalidRequest.value(name, sheet, "name of a sheet")
        for name in ("aggregate", "ignore_case", "stitch", "order_sources"):
            if not isinstance(flag := getattr(self, name), bool):
                raise InvalidRequest.value(name, flag, "True or False")

    @classmethod
    def of(cls, reading: object) -> Reading:
        """Return a reading, or the default for None; refuse anything else."""
        if reading is None:
            return cls()
        if not isinstance(reading, Reading):
            raise InvalidRequest.value("reading", reading, "a Reading, such as Reading.from_json(text)")
        return reading

    def formats(self, file: File) -> Formats:
        """Return how one of the files is written."""
        ways: dict[str, Any] = {
            name: given.get(file) if isinstance(given := getattr(self, name), Mapping) else given
            for name in _WAYS
        }
        return Formats(**ways, sheet=getattr(self, SHEETS[file]))

    def to_json(self) -> str:
        """Return the reading as JSON, without default values."""
        default = Reading()
        chosen = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        return json.dumps(chosen, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Reading:
        """Return the reading that :meth:`to_json` wrote.

        Raises
        ------
        InvalidRequest
            If the text is not JSON, or has a name that a reading has not.
        """
        try:
            # Editors on Windows begin files with a mark of their encoding.
            chosen: Any = json.loads(text.removeprefix("\ufeff"))
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidRequest(f"reading: not JSON: {error}", field="reading") from error
        names = [each.name for each in fields(cls)]
        if not isinstance(chosen, dict):
            raise InvalidRequest("reading: expected an object of JSON", field="reading")
        for name in chosen:
            if name not in names:
                raise InvalidRequest(
                    f"reading: {name!r} is not allowed{closest(name, names)}; allowed: {', '.join(names)}",
                    field="reading",
                )
        return cls(**chosen)


@dataclass(frozen=True)
class Asked:
    """What is asked of files, whatever is in them: arguments of :func:`attrib_ds.read_journeys`."""

    event_type: str = "conversion"
    currency: str | None = None
    channels: Frame | None = None
    conversion_page: str | None = None
    spend: FrameOrPath | Sequence[FrameOrPath] | None = None
    aliases: Mapping[str, str] | None = None
    statuses: Mapping[str, bool] = field(default_factory=dict)


def in_reading(message: str) -> str:
    """Return a message in which what belongs to a reading is part of one.

    Examples
    --------
    >>> in_reading("pass dayfirst=True, or name it with columns={'user': COLUMN}")
    "pass reading=Reading(dayfirst=True), or name it with reading=Reading(columns={'user': COLUMN})"
    """
    return _ARGUMENT.sub(r"reading=Reading(\1)", message)


@contextmanager
def telling_readings() -> Iterator[None]:
    """Let errors name the :class:`Reading` to pass, instead of its parts."""
    try:
        yield
    except InvalidRequest as error:
        error.message = in_reading(error.message)
        error.args = (error.message,)
        raise
