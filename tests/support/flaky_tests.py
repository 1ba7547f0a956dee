"""Hooks that try failed tests once more, each alone: what passes then is flaky, which is reported and does not fail the run.

Three flaky tests fail it, and more failures than ten are not tried again. Neither is anything after ``-x``, nor the
only test of a run. The cells of a notebook are tried again together.
"""

import os
import subprocess
import sys

import pytest

#: This many flaky tests fail a run.
TOO_MANY = 3
#: More failures are a broken change.
MOST_RETRIED = 10
SECONDS = 300


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    config = session.config
    if (
        hasattr(config, "workerinput")
        or exitstatus != pytest.ExitCode.TESTS_FAILED
        or config.getoption("maxfail")
    ):
        return
    stats = config.pluginmanager.getplugin("terminalreporter").stats
    reports = [*stats.get("failed", ()), *stats.get("error", ())]
    if session.testscollected == 1 or not all(isinstance(report, pytest.TestReport) for report in reports):
        return
    names = dict.fromkeys(_alone(report.nodeid) for report in reports)
    if not 0 < len(names) <= MOST_RETRIED:
        return
    flaky = {name for name in names if _passes_alone(config, name)}
    for outcome in ("failed", "error"):
        kept = [report for report in stats.pop(outcome, ()) if _alone(report.nodeid) not in flaky]
        if kept:
            stats[outcome] = kept
    if flaky:
        stats["flaky"] = [report for report in reports if _alone(report.nodeid) in flaky]
    if len(flaky) == len(names) < TOO_MANY:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter):
    names = list(dict.fromkeys(_alone(report.nodeid) for report in terminalreporter.stats.get("flaky", ())))
    if names:
        terminalreporter.section("flaky tests: they failed, and passed alone")
        for name in names:
            terminalreporter.line(f"FLAKY {name}")
        if len(names) >= TOO_MANY:
            terminalreporter.line(f"{len(names)} flaky tests fail the run")


def _alone(name):
    """Return what is tried again for a test: itself, or the notebook whose cell it is."""
    file, _, _ = name.partition("::")
    return file if file.endswith(".ipynb") else name


def _passes_alone(config, name):
    given = config.invocation_params
    paths = set(config.args) if config.args_source is pytest.Config.ArgsSource.ARGS else set()
    # The test is chosen by its name. Without the folder of tests, pytest does not know the option.
    options = [each for each in given.args if each not in paths and not each.startswith("--cases=")]
    if config.pluginmanager.hasplugin("xdist"):
        options += ["-n", "0"]
    # The report in XML is that of the whole run.
    if getattr(config.option, "xmlpath", None):
        options += ["--junitxml", os.devnull]
    command = [sys.executable, "-m", "pytest", *options, "-x", str(config.rootpath / name)]
    try:
        finished = subprocess.run(
            command, cwd=given.dir, stdout=subprocess.DEVNULL, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return finished.returncode == 0
