"""The tracking script: served at ``/t.js`` with its integrity hash."""

from attrib_ds.service.http.tracker.script import PATH, Script, tracking_script

__all__ = ["PATH", "Script", "tracking_script"]
