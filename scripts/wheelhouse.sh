#!/usr/bin/env bash
# Everything a class room without a network installs from, in build/wheelhouse: wheels of exactly what uv.lock has, for this
# machine's system and Python, and of the kit itself. There:
#   python3 -m venv env && env/bin/pip install --no-index --find-links wheelhouse -r wheelhouse/requirements.txt checkpoint-kit

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
to=${1:-build/wheelhouse}
uv=$(command -v uv || ls .uv/bin/uv 2>/dev/null || python3 -c 'import uv; print(uv.find_uv_bin())')

mkdir -p "$to"
"$uv" export --quiet --frozen --no-dev --no-hashes --no-emit-project --extra notebooks --extra classroom >"$to/requirements.txt"
"$uv" build --quiet --wheel --out-dir "$to" .
"$uv" tool run --quiet pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$to" --requirement "$to/requirements.txt"
printf 'wheelhouse: %s wheels, %s in %s. There, without a network:\n  %s\n' "$(ls "$to"/*.whl | wc -l)" "$(du -sh "$to" | cut -f1)" "$to" \
  "python3 -m venv env && env/bin/pip install --no-index --find-links wheelhouse -r wheelhouse/requirements.txt checkpoint-kit" >&2
