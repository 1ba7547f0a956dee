#!/usr/bin/env bash
# Installs the newest releases of everything without the upper bounds of pyproject.toml, runs the quick tests on
# them and reports. It never fails: a release of another project must not stop a change of this one.
#
#   bash tests/environments/newest.sh [PYTHON]
set -uo pipefail
cd "$(dirname "$0")/../.."
python=${1:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

report() {
    echo "newest releases: $1"
    exit 0
}

git clone --quiet . "$work/clone" && cd "$work/clone" || report "cannot be tried: the project is not a clone"
sed -i -E '/^requires-python|^requires = /!s/("[A-Za-z][A-Za-z0-9_.-]*(\[[a-z,]*\])?>=[0-9.]+),<[0-9.]+"/\1"/g' pyproject.toml
"$python" -m venv "$work/venv" || report "cannot be tried: $python has no venv"
"$work/venv/bin/pip" install --quiet --no-compile '.[test]' > "$work/install.log" 2>&1 ||
    report "they do not install: $(tail -1 "$work/install.log")"
"$work/venv/bin/pip" list --format=freeze |
    grep -iE '^(duckdb|ibis-framework|numpy|pandas|pyarrow|pydantic|scipy|sqlglot|starlette|uvicorn)=='
"$work/venv/bin/python" -m pytest -n auto -q --maxfail=50 "${@:2}" > "$work/tests.log" 2>&1
status=$?
grep -E '^(FAILED|ERROR) ' "$work/tests.log"
report "$(tail -1 "$work/tests.log") (status $status, $("$work/venv/bin/python" --version))"
