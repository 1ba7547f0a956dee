"""Allow-list of SQL syntax and functions for users' queries."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

#: Structure of a query; `admission` inspects joins, tables and subqueries further.
_STRUCTURE: Final = (
    exp.Select, exp.Union, exp.Intersect, exp.Except, exp.Subquery, exp.With, exp.CTE, exp.Table,
    exp.TableAlias, exp.Alias, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Qualify,
    exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Distinct, exp.Identifier, exp.Column, exp.Star,
    exp.Paren, exp.Tuple, exp.Values, exp.Window, exp.WindowSpec, exp.Filter, exp.IgnoreNulls,
    exp.RespectNulls, exp.Var, exp.Interval,
)  # fmt: skip
_VALUES: Final = (exp.Literal, exp.Boolean, exp.Null, exp.DataType, exp.DataTypeParam)
_OPERATORS: Final = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Exists, exp.Any, exp.All, exp.Like, exp.ILike,
    exp.SimilarTo, exp.RegexpLike, exp.RegexpFullMatch, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv,
    exp.Mod, exp.Neg, exp.DPipe, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.JSONExtractScalar,
    exp.JSONPath, exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript,
)  # fmt: skip
_SCALARS: Final = (
    exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Abs, exp.Ceil, exp.Floor, exp.Round,
    exp.Sign, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Pow, exp.Lower, exp.Upper, exp.Trim, exp.Length,
    exp.Substring, exp.Left, exp.Right, exp.StartsWith, exp.Contains, exp.StrPosition, exp.EndsWith,
    exp.SplitPart, exp.Concat, exp.RegexpExtract, exp.CurrentDate, exp.CurrentTimestamp,
    exp.TimestampTrunc, exp.DateTrunc, exp.DateDiff, exp.DateAdd, exp.Extract, exp.TimeToStr,
    exp.TimeToUnix, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfWeek,
    exp.DayOfWeekIso, exp.DayOfYear, exp.LastDay, exp.Hour, exp.Minute, exp.Second,
)  # fmt: skip
#: Aggregates that are also allowed over moving frames, where they are cheap per row.
OVER_FRAMES: Final = (exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max)
_AGGREGATES: Final = (
    *OVER_FRAMES, exp.Median, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop,
    exp.LogicalOr, exp.LogicalAnd, exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.ApproxDistinct,
    exp.PercentileCont, exp.PercentileDisc, exp.WithinGroup, exp.First, exp.Last,
)  # fmt: skip
WINDOWS: Final = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead,
    exp.FirstValue, exp.LastValue, exp.NthValue,
)  # fmt: skip

#: Allowed classes of syntax tree nodes.
ALLOWED: Final = (
    *_STRUCTURE, *_VALUES, *_OPERATORS, *_SCALARS, *_AGGREGATES, *WINDOWS, exp.Anonymous,
)  # fmt: skip
#: Functions without a class of their own in the parser.
NAMED: Final = frozenset({"now", "date_part", "epoch_ms", "isfinite", "suffix", "prefix"})
#: Allowed types of casts.
TYPES: Final = frozenset(
    {"VARCHAR", "TEXT", "CHAR", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "FLOAT",
     "DOUBLE", "DECIMAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "INTERVAL"}
)  # fmt: skip
#: Allowed date parts.
UNITS: Final = frozenset(
    unit + plural
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
    for plural in ("", "S")
) | {"DOW", "DAYOFWEEK", "ISODOW", "DOY", "DAYOFYEAR", "EPOCH", "ISOYEAR"}  # fmt: skip
