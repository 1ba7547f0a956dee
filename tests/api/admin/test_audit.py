"""The audit log, through the public function."""

import pandas as pd

from attrib_ds import connect, create_event_type
from attrib_ds.api.admin import list_audit, update_settings


def test_g211_the_log_is_a_frame():
    with connect("my-shop", path=":memory:") as shop:
        empty = list_audit(shop)
        assert (len(empty), empty.attrs["total"]) == (0, 0)
        create_event_type(shop, "order", name="Order")
        update_settings(shop, retention_duration_in_days=1)
        update_settings(shop, retention_duration_in_days=2)
        found = list_audit(shop, limit=1)
        assert found.dtypes.to_dict() == empty.dtypes.to_dict()
        assert found.attrs["total"] == 2
        (line,) = found.to_dict("records")
        assert (line["operation"], line["subject"]) == ("update_settings", "my-shop")
        assert line["details"] == '{"retentionDurationInDays":2}'
        assert pd.isna(line["account"])
        assert line["date"].tzinfo is not None
        assert (
            len(list_audit(shop, operation_name="delete_user"))
            == len(list_audit(shop, account="nobody"))
            == 0
        )
