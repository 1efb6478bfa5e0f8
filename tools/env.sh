#!/usr/bin/env bash
# Make or refresh .venv so that it holds what requirements/$1.txt locks ($1: dev or demo), and gapless itself, editable.
# Uses uv where it exists, else python3 -m venv and pip. PYTHON=… chooses the interpreter for a new .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

want=${1:?usage: tools/env.sh dev|demo}
venv=.venv
stamp=$venv/.stamp-$want
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
have_uv() { command -v uv >/dev/null 2>&1; }
is_new_enough() { "$1" -c "$new_enough" >/dev/null 2>&1; }

# Print the first interpreter that runs and is 3.11 or newer. A name on the PATH may be a shim that leads nowhere, so each is run.
find_python() {
    local name
    for name in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.14 python; do
        if is_new_enough "$name"; then command -v "$name"; return; fi
    done
    return 1
}

explain_no_python() {
    if [ -n "${PYTHON:-}" ]; then say "PYTHON=$PYTHON does not run, or is older than 3.11."; fi
    say "no Python 3.11 or newer was found (python3 is: $(python3 --version 2>&1 | head -n 1))."
    die "Install one (Debian: apt-get install python3 python3-venv), or name one: make PYTHON=/path/to/python3.12 setup"
}

make_venv() {
    local python
    if [ -n "${PYTHON:-}" ]; then is_new_enough "$PYTHON" || explain_no_python; fi
    rm -rf "$venv"
    if have_uv; then
        python=$(find_python) || python=3.12 # uv brings one along
        say "uv venv with $python"
        uv venv --quiet --no-project --python "$python" "$venv" || explain_no_python
        return
    fi
    python=$(find_python) || explain_no_python
    say "$python -m venv"
    if ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        die "$python cannot make an environment. On Debian and Ubuntu its venv module is a package: apt-get install python3-venv"
    fi
}

# A .venv that uv made has no pip; where uv is gone, Python brings pip along.
ensure_pip() {
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null ||
        die "$venv has no pip and there is no uv. Remove $venv and run again."
}

# A lock is complete, so dependencies are not resolved again (--no-deps); and what is built from source is built
# with the parts of requirements/build.txt, not with the registry's newest (--no-build-isolation).
install() {
    if have_uv; then
        uv pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation "$@"
    else
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation "$@"
    fi
}

# The developers' lock holds all of the demo's, in the same versions.
dev_serves() {
    [ "$want" = demo ] && [ -e "$venv/.stamp-dev" ] && [ -z "$(find requirements pyproject.toml src/gapless/_version.py -newer "$venv/.stamp-dev")" ]
}

if ! is_new_enough "$venv/bin/python"; then make_venv; fi
if ! dev_serves; then
    have_uv || ensure_pip
    say "installing requirements/$want.txt with $(have_uv && echo uv || echo pip)"
    install --require-hashes -r requirements/build.txt
    install --require-hashes -r "requirements/$want.txt"
    install --editable .
fi
touch "$stamp"
say "$venv is ready ($("$venv/bin/python" --version), requirements/$want.txt)"
