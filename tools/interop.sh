#!/usr/bin/env bash
# Make or refresh build/interop/<name> from each requirements/interop/<name>.txt: other releases of deltalake, and DuckDB's delta
# extension, with which tests read and write our Delta tables. Costs nothing where they hold what is locked; says which does not install.
set -euo pipefail
cd "$(dirname "$0")/.."

make_home() {
    rm -rf "$2"
    mkdir -p build/interop
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --no-project --python .venv/bin/python "$2" &&
            uv pip install --quiet --python "$2/bin/python" --no-deps --require-hashes -r "$1"
    else
        .venv/bin/python -m venv "$2" &&
            "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$1"
    fi && cp "$1" "$2/.stamp"
}

for lock in requirements/interop/*.txt; do
    home=build/interop/$(basename "$lock" .txt)
    if cmp --silent "$lock" "$home/.stamp"; then continue; fi
    printf 'interop: installing %s into %s\n' "$lock" "$home" >&2
    # Tests that need one say so, and fail in CI.
    make_home "$lock" "$home" || printf 'interop: %s does not install here; its tests are skipped\n' "$lock" >&2
done
