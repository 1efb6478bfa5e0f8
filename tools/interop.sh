#!/usr/bin/env bash
# Make or refresh build/interop/<name> from each requirements/interop/<name>.txt: other releases of deltalake, and DuckDB's delta
# extension, with which tests read and write our Delta tables; and readers of Hudi. Says which does not install.
set -euo pipefail
cd "$(dirname "$0")/.."

for lock in requirements/interop/*.txt; do
    # Tests that need one say so, and fail in CI.
    bash tools/locked_env.sh "$lock" "build/interop/$(basename "$lock" .txt)" ||
        printf 'interop: %s does not install here; its tests are skipped\n' "$lock" >&2
done
