#!/usr/bin/env bash
# Prepare what make needs, on a fresh Debian or Ubuntu: Python is looked for, the rest is installed; what apt-get brings
# (Java, Chromium, ZooKeeper) only for root, others are told what to ask for.
#
#   scripts/setup.sh            uv and the environment in .venv, exactly as uv.lock has it
#   scripts/setup.sh java       Java 17 or newer first, then the same
#   scripts/setup.sh browser    the same, and Chromium
#   scripts/setup.sh zookeeper  the same, and ZooKeeper
#   scripts/setup.sh databases  the same, PostgreSQL, and JDBC's drivers for it and for SQLite
#   scripts/setup.sh flink      the same, and Apache Flink's own jars in build/ (FLINK_VERSION=2.3.0), for javac
#   scripts/setup.sh classroom  the same, and nbgrader in an environment of its own, build/classroom/env
#   scripts/setup.sh oldest     the same, and the oldest versions that pyproject.toml allows, in build/oldest
#   scripts/setup.sh lock       resolve the dependencies anew into uv.lock
#
# Done once, it finds so in a fraction of a second.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stamp=.venv/.ready

# Behind a company's proxy the certificate that counts is the system's; uv brings its own unless told.
certificates=/etc/ssl/certs/ca-certificates.crt
[[ -n ${SSL_CERT_FILE:-} || ! -r $certificates ]] || export SSL_CERT_FILE=$certificates

say() { printf 'setup: %s\n' "$*" >&2; }
stop() { say "$*"; exit 1; }
is_root() { [[ $(id -u) == 0 ]]; }

apt_install() {
  say "installing $* with apt-get"
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# The major version of a Java, or nothing.
java_version() {
  { "$1" -version 2>&1 || true; } | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

need_java() {
  local java=${JAVA_HOME:+$JAVA_HOME/bin/}java major found="there is none" # as Spark looks for it
  major=$(java_version "$java")
  ((${major:-0} < 17)) || return 0
  if [[ -z ${JAVA_HOME:-} ]] && is_root && command -v apt-get >/dev/null; then
    apt_install default-jre-headless
    major=$(java_version "$java")
    ((${major:-0} < 17)) || return 0
  fi
  [[ -z $major ]] || found="$java is $major"
  stop "Java 17 or newer is needed and $found: as root, apt-get install default-jre-headless (or set JAVA_HOME), then run make again"
}

# The first Python on the PATH that is new enough. make puts our own environment there first, which is none to make
# environments from: it has no pip, and does not see where pip put uv.
find_python() {
  local name path=${PATH//"$PWD/.venv/bin:"/}
  for name in python3 python3.14 python3.13 python3.12 python3.11; do
    if PATH=$path "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      PATH=$path command -v "$name"
      return
    fi
  done
  stop "Python 3.11 or newer is needed and there is none: apt-get install python3.11 (or newer), then run make again"
}

# uv from the PATH, from where pip put it, or from .uv; nothing when it is in none of them.
find_uv() {
  command -v uv || "$1" -c 'import uv; print(uv.find_uv_bin())' 2>/dev/null || command -v .uv/bin/uv || true
}

# Into .uv, with the pip there is, or else with that of an environment.
install_uv() {
  local python=$1
  say "installing uv into .uv"
  ! "$python" -m pip install --quiet --disable-pip-version-check --target .uv uv >/dev/null 2>&1 || return 0
  rm -rf .uv
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    local package
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    { is_root && command -v apt-get >/dev/null; } ||
      stop "uv is missing and $python cannot make environments: install uv, or as root apt-get install $package, then run make again"
    apt_install "$package"
  fi
  "$python" -m venv .uv
  .uv/bin/python -m pip install --quiet --disable-pip-version-check uv >&2
}

# Sets `uv`, and `python` to the interpreter an environment is made from.
need_uv() {
  python=$(find_python)
  uv=$(find_uv "$python")
  if [[ -z $uv ]]; then
    install_uv "$python"
    uv=$(find_uv "$python")
    [[ -n $uv ]] || stop "uv could not be installed: install it by hand, then run make again"
  fi
}

# What the environment depends on: the lock, the project's settings, and where the project lies.
fingerprint() { pwd && cat pyproject.toml uv.lock | cksum; }

need_environment() {
  [[ ! -x .venv/bin/python || "$(fingerprint)" != "$(cat $stamp 2>/dev/null)" ]] || return 0
  need_uv
  say "making the environment in .venv (half a minute the first time)"
  [[ -x .venv/bin/python ]] || "$uv" venv --quiet --clear --python "$python" .venv
  "$uv" sync --quiet --frozen --all-extras --no-extra classroom
  fingerprint >$stamp
}

need_browser() {
  local path
  ! .venv/bin/chromium --version >/dev/null 2>&1 || return 0
  ! chromium --version >/dev/null 2>&1 || return 0
  is_root && command -v apt-get >/dev/null ||
    stop "the browser tests need Chromium: as root, apt-get install chromium, then run make again"
  if grep -q '^ID.*ubuntu' /etc/os-release; then # Ubuntu's chromium is a snap, which containers cannot run
    say "installing Chromium with playwright"
    .venv/bin/python -m playwright install --with-deps chromium >&2
    path=$(.venv/bin/python -c '
from playwright.sync_api import sync_playwright
with sync_playwright() as browsers:
    print(browsers.chromium.executable_path)')
    ln -sf "$path" .venv/bin/chromium
  else
    apt_install chromium
  fi
}

need_zookeeper() {
  [[ ! -e /usr/share/java/zookeeper.jar ]] || return 0
  is_root && command -v apt-get >/dev/null ||
    stop "the tests need ZooKeeper: as root, apt-get install zookeeper, then run make again"
  apt_install zookeeper
}

need_databases() {
  local packages=(postgresql libpostgresql-jdbc-java libxerial-sqlite-jdbc-java)
  [[ ! -e /usr/share/java/sqlite-jdbc.jar || ! -e /usr/share/java/postgresql.jar ]] || ! compgen -G '/usr/lib/postgresql/*/bin/pg_ctl' >/dev/null || return 0
  is_root && command -v apt-get >/dev/null ||
    stop "the tests need databases: as root, apt-get install ${packages[*]}, then run make again"
  apt_install "${packages[@]}"
}

# Flink's jars come as a Python package; it is unpacked beside the environment, not into it.
need_flink() {
  local version=${FLINK_VERSION:-2.3.0}
  local to=build/flink-$version
  command -v javac >/dev/null || stop "javac is needed and there is none: apt-get install default-jdk-headless, then run make again"
  [[ ! -d $to ]] || return 0
  need_uv
  say "fetching Flink $version into $to (300 MB)"
  rm -rf "$to.part"
  "$uv" pip install --quiet --no-deps --target "$to.part" "apache-flink-libraries==$version" 2>/dev/null ||
    stop "the package apache-flink-libraries==$version cannot be had: check the connection to the package index"
  mv "$to.part" "$to"
}

# nbgrader puts a page of its own into every JupyterLab that it is installed beside, which asks for a course: so it lives apart.
need_classroom() {
  local env=$PWD/build/classroom/env
  [[ ! -x $env/bin/nbgrader || "$(fingerprint)" != "$(cat "$env/.ready" 2>/dev/null)" ]] || return 0
  need_uv
  say "making the classroom's environment in build/classroom/env"
  [[ -x $env/bin/python ]] || "$uv" venv --quiet --clear --python "$python" "$env"
  UV_PROJECT_ENVIRONMENT=$env "$uv" sync --quiet --frozen --no-dev --extra classroom --extra notebooks
  fingerprint >"$env/.ready"
}

# The lowest versions of what pyproject.toml names; what these need in turn is as new as it may be.
need_oldest() {
  local env=$PWD/build/oldest
  [[ ! -x $env/bin/python || "$(fingerprint)" != "$(cat "$env/.ready" 2>/dev/null)" ]] || return 0
  need_uv
  say "making the environment of the oldest versions in build/oldest"
  "$uv" venv --quiet --clear --python "$python" "$env"
  "$uv" pip compile --quiet --resolution lowest-direct --all-extras --group dev --python "$env/bin/python" pyproject.toml |
    "$uv" pip install --quiet --python "$env/bin/python" --requirement -
  fingerprint >"$env/.ready"
}

case " $* " in *" lock "*) need_uv && exec "$uv" lock ;; esac
case " $* " in *" java "*) need_java ;; esac
need_environment
case " $* " in *" browser "*) need_browser ;; esac
case " $* " in *" zookeeper "*) need_zookeeper ;; esac
case " $* " in *" databases "*) need_databases ;; esac
case " $* " in *" flink "*) need_flink ;; esac
case " $* " in *" classroom "*) need_classroom ;; esac
case " $* " in *" oldest "*) need_oldest ;; esac
