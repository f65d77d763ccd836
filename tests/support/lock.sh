#!/bin/sh
# Pins the dependencies of the service's venv: versions and hashes of all their files, for every
# Python that is supported. Which index is asked is pip's and uv's own configuration.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install uv
"$work/venv/bin/uv" pip compile --quiet --universal --python-version 3.10 --generate-hashes \
    --no-header --no-annotate --extra agent pyproject.toml -o "$work/lock"
lock=agent/linkhold/install/requirements.lock
{
    sed '/^[^#]/,$d' "$lock"
    # Windows is no host of linkhold; its packages would only be asked for in vain.
    awk '/^[^ ]/ { skip = /sys_platform == .win32./ } !skip' "$work/lock"
} >"$work/new"
mv "$work/new" "$lock"
