"""Runs the examples of docs/how-to/other-engines.md on another engine: ``python engine_example.py spark``.

``postgres`` reads its connection from standard input, as JSON. ClickHouse runs inside this process, by chDB.
"""

import json
import re
import sys
from pathlib import Path

import ibis
import pandas as pd

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "other-engines.md"


def spark():
    """Spark on two threads of this machine."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false")
    return ibis.pyspark.connect(builder.config("spark.sql.shuffle.partitions", "2").getOrCreate())


def postgres():
    """PostgreSQL, at the connection given on standard input."""
    return ibis.postgres.connect(**json.load(sys.stdin))


def clickhouse():
    """ClickHouse without a server."""
    sys.path.append(str(Path(__file__).parents[1]))
    from support.chdb_client import ChdbClient

    return ibis.clickhouse.from_connection(ChdbClient.connect("shop"))


def main(name):
    """Run what the page has for tables, and the example of raw hits where the engine is one of those for them."""
    engine = {"spark": spark, "postgres": postgres, "clickhouse": clickhouse}[name]()
    days = pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-05"], utc=True)
    visits = {"user_id": ["u", "u", "v"], "node_id": ["search", "email", "email"], "date": days[:3]}
    orders = {"event_id": ["a"], "user_id": ["u"], "value": [30.0], "date": days[3:]}
    engine.create_table("touchpoints", pd.DataFrame(visits))
    engine.create_table("conversions", pd.DataFrame(orders))
    _, *blocks, hits = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = "import attrib_ds as at\n" + "".join(blocks) + (hits if name != "postgres" else "")
    code = code.replace("ibis.duckdb.connect()", "ENGINE")
    code = re.sub(r"engine\.read_parquet\(.*?table_name=", "engine.table(", code)
    held = {"ENGINE": engine}
    exec(compile(code, str(PAGE), "exec"), held)
    for answer in ("same", "again"):
        credits = held[answer].query("model == 'linear'").set_index("node_id")
        assert credits["value"].to_dict() == {"email": 15.0, "search": 15.0}, credits
    assert held["days"]["sessionCount"].sum() == 3
    if name != "postgres":
        assert held["of_clicks"]["node_id"].tolist() == ["google/cpc"]


if __name__ == "__main__":
    main(sys.argv[1])
