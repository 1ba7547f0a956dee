"""The request for a file of users."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import model_validator

from attrib_ds.contract.audiences import Audience
from attrib_ds.contract.predicates import UserFilter
from attrib_ds.contract.request import Part, ProjectRequest, disagreement
from attrib_ds.contract.rule import Refused, Rule, choice, pattern, shown, text
from attrib_ds.contract.user_keys import UserKey
from attrib_ds.contract.values import BOUNDED, FILLED, Flag, whole

#: Allowed levels of each transformer (G-123).
LEVELS: Final[dict[str, Rule]] = {
    "date": choice("year", "semester", "quarter", "month", "week", "day", "hour", "minute", "second"),
    "number": whole(lowest=0, highest=12, expected="0 to 12 decimals"),
    "case": choice("upper", "lower"),
    "hash": choice("sha256"),
    "join": text(expected="a separator of at most 16 characters", longest=16),
}

FileName: TypeAlias = Annotated[
    str,
    pattern(
        r"[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}",
        longest=128,
        expected="1 to 128 characters without slashes, backslashes and control characters",
    ),
]


class Transformer(Part):
    """A transformation of one column."""

    type: Annotated[str, choice(*LEVELS)]
    key: UserKey
    level: Any = None

    @model_validator(mode="after")
    def _check_level(self) -> Self:
        rule = LEVELS[self.type]
        if self.type == "hash" and self.level is None:
            return self
        try:
            rule.check(self.level)
        except Refused:
            problem = f"{shown(self.level)} is not a level of {self.type!r}; expected {rule.expected}"
            raise disagreement(("level", problem)) from None
        return self


class ExportedData(Part):
    """The columns of the file and the selection of users."""

    columns: Annotated[tuple[UserKey, ...], FILLED]
    filters: UserFilter | None = None
    audience: Audience | None = None


class OutputFormat(Part):
    """The file format; only ``type`` is part of the specification (G-119)."""

    type: Annotated[str, choice("csv", "xlsx", fold=True)]
    delimiter: Annotated[str, choice(",", ";", "\t", "|")] = ","
    encoding: Annotated[str, choice("utf-8", "utf-8-bom")] = "utf-8"
    sanitizeFormulas: Flag = True


class ExportUsers(ProjectRequest):
    """Export users of a project to a file."""

    filename: FileName
    exporterDataConfig: ExportedData
    outputFormatConfig: OutputFormat
    transformerConfig: Annotated[tuple[Transformer, ...], BOUNDED]

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        columns = self.exporterDataConfig.columns
        violations = [
            (
                f"transformerConfig/{index}/key",
                f"{change.key!r} is not among the {{exporterDataConfig/columns}}",
            )
            for index, change in enumerate(self.transformerConfig)
            if change.key not in columns
        ]
        if violations:
            raise disagreement(*violations)
        return self
