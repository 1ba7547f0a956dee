#!/usr/bin/env bash
# Runs the README's two commands on Debian's testing release, under each Python that it has from 3.14 on. Run by
# hand as root before a release; docs/reference/platforms.md has the last result.
#
#   bash tests/environments/debian_testing.sh [FOLDER] [PYTHON…]     such as /tmp/testing 3.14 3.15
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(realpath -m "${1:-/tmp/attrib-ds-testing}")
shift || true
pythons=("${@:-3.14}")
[ $# -gt 0 ] || pythons=(3.14 3.15)

if [ ! -x "$root/usr/bin/python3" ]; then
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv testing "$root" > /dev/null
fi

# What this machine needs to reach registries: apt's and pip's settings, certificates, variables.
settings="$root/etc/attrib-ds-settings"
install -m 600 /dev/null "$settings"
while IFS='=' read -r name value; do
    printf 'export %s=%q\n' "$name" "$value" >> "$settings"
done < <(env | grep -iE '^(https?_proxy|no_proxy|all_proxy|pip_[a-z_]+)=' | grep -v '=/' || true)
while IFS='=' read -r name value; do
    name=${name##*.}
    # Files of this machine are not in the root folder.
    [[ $value == *file:* || $value == \'/* ]] || printf 'export PIP_%s=%s\n' "$(tr 'a-z-' 'A-Z_' <<< "$name")" "$value" >> "$settings"
done < <(python3 -m pip config list 2> /dev/null || true)
certificates=$(python3 -c 'import ssl; print(ssl.get_default_verify_paths().cafile or "")')
for file in "${SSL_CERT_FILE:-}" "${REQUESTS_CA_BUNDLE:-}" "${PIP_CERT:-}" "$certificates" /etc/ssl/certs/ca-certificates.crt; do
    [ -z "$file" ] || [ ! -f "$file" ] || { cp "$file" "$root/etc/ssl/certs/of-this-machine.crt" && break; }
done
if [ -f "$root/etc/ssl/certs/of-this-machine.crt" ]; then
    for name in SSL_CERT_FILE REQUESTS_CA_BUNDLE PIP_CERT; do
        echo "export $name=/etc/ssl/certs/of-this-machine.crt" >> "$settings"
    done
fi
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
[ ! -f /etc/apt/auth.conf ] || cp -p /etc/apt/auth.conf "$root/etc/apt/"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
trap 'rm -f "$settings"' EXIT

inside() { # run a text of commands in the root folder
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        bash -euo pipefail -c ". /etc/attrib-ds-settings; $1"
}

readme_command() { # the fenced block that follows the marker <!-- NAME --> in the README
    awk -v marker="<!-- $1 -->" '$0 == marker {found=1; next} found && /^```/ {if (inside) exit; inside=1; next} inside' README.md
}

for mount in proc dev; do
    mountpoint -q "$root/$mount" || mount --bind "/$mount" "$root/$mount" 2> /dev/null || true
done
failed=0
for python in "${pythons[@]}"; do
    inside "command -v python$python > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends python$python python$python-venv > /dev/null; }"
    for command in main-job tests; do
        rm -rf "$root/clone"
        git clone --quiet . "$root/clone"
        # The README's python3 is the one that is tried.
        text=$(readme_command "$command" | sed "s/^python3 /python$python /")
        echo "== Python $(inside "python$python --version" | cut -d' ' -f2), $command ($(date -u +%F))"
        inside "cd /clone && $text" || { echo "failed: $command on Python $python" >&2; failed=1; }
    done
    inside "cd /clone && .venv/bin/pip list --format=freeze" | grep -iE '^(duckdb|numpy|pandas|pyarrow|scipy)==' || true
done
exit $failed
