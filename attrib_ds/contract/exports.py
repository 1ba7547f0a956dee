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

#: What each transformer's level may be (G-123).
LEVELS: Final[dict[str, Rule]] = {
    "date": choice("year", "semester", "quarter", "month", "week", "day", "hour", "minute", "second"),
    "number": whole(lowest=0, highest=12, allowed="0 to 12 decimals"),
    "case": choice("upper", "lower"),
    "hash": choice("sha256"),
    "join": text(allowed="a separator of at most 16 characters", longest=16),
}

FileName: TypeAlias = Annotated[
    str,
    pattern(
        r"[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}",
        longest=128,
        allowed="1 to 128 characters without slashes, backslashes and control characters",
    ),
]


class Transformer(Part):
    """One change of one column."""

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
            problem = f"{shown(self.level)} is no level of {self.type!r}; allowed: {rule.allowed}"
            raise disagreement(("level", problem)) from None
        return self


class ExportedData(Part):
    """Which users, and what of each."""

    columns: Annotated[tuple[UserKey, ...], FILLED]
    filters: UserFilter | None = None
    audience: Audience | None = None


class OutputFormat(Part):
    """The kind of file; what stands after ``type`` is beyond the specification (G-119)."""

    type: Annotated[str, choice("csv", "xlsx", fold=True)]
    delimiter: Annotated[str, choice(",", ";", "\t", "|")] = ","
    encoding: Annotated[str, choice("utf-8", "utf-8-bom")] = "utf-8"
    sanitizeFormulas: Flag = True


class ExportUsers(ProjectRequest):
    """Users of a project as a file."""

    filename: FileName
    exporterDataConfig: ExportedData
    outputFormatConfig: OutputFormat
    transformerConfig: Annotated[tuple[Transformer, ...], BOUNDED]

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        columns = self.exporterDataConfig.columns
        violations = [
            (f"transformerConfig/{index}/key", f"{each.key!r} is none of the {{exporterDataConfig/columns}}")
            for index, each in enumerate(self.transformerConfig)
            if each.key not in columns
        ]
        if violations:
            raise disagreement(*violations)
        return self
