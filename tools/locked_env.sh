#!/usr/bin/env bash
# Make or refresh the environment $2 from the lock $1, with uv where it exists. Costs nothing where it holds what is locked.
set -euo pipefail
cd "$(dirname "$0")/.."

lock=$1 home=$2
if cmp --silent "$lock" "$home/.stamp"; then exit; fi
printf 'installing %s into %s\n' "$lock" "$home" >&2
rm -rf "$home"
mkdir -p "$(dirname "$home")"
if command -v uv >/dev/null 2>&1; then
    uv venv --quiet --no-project --python .venv/bin/python "$home"
    uv pip install --quiet --python "$home/bin/python" --no-deps --require-hashes -r "$lock"
else
    .venv/bin/python -m venv "$home"
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$lock"
fi
cp "$lock" "$home/.stamp"
