"""Attribution of conversions to traffic-source nodes; knows tables, no service."""
