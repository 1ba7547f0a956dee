"""Users, touchpoints and conversions on days since a first one, and the paths of simulated worlds."""

import pandas as pd

from attrib_ds import Paths

DAY = pd.Timedelta(days=1)
START = pd.Timestamp("2025-01-01", tz="UTC")


def at(days):
    """Return the instants so many days after the first."""
    return START + pd.to_timedelta(days, unit="D")


def paths_of(world, **changes):
    """Return the paths of a simulated world, with some of its frames changed."""
    frames = {"touchpoints": world.touchpoints, "conversions": world.conversions, "users": world.users}
    frames |= changes
    return Paths.from_frames(frames["touchpoints"], frames["conversions"], users=frames["users"])
