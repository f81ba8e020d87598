#!/usr/bin/env bash
# Inside an empty root that systemd booted, as root: the life of the Debian package, its service included.
#   deb.sh OLDER_PACKAGE PACKAGE VERSION
set -euo pipefail

kind=deb older=$1 package=$2 version=$3
# shellcheck source=tests/packages.d/inside.sh
. /case/inside.sh
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
data=/var/lib/codelab settings=/etc/codelab/environment
port=8080

apt() {
  apt-get --quiet --yes --no-install-recommends -o Dpkg::Use-Pty=0 "$@"
}

main_pid() {
  systemctl show --property MainPID --value codelab.service
}

is_active() {
  [[ $(systemctl is-active codelab.service) == active ]]
}

runs_as_its_user() {
  local status
  status=/proc/$(main_pid)/status
  [[ $(stat --format %U "/proc/$(main_pid)") == codelab ]] &&
    grep -q '^CapBnd:.*0000000000000000$' "$status" && grep -q '^NoNewPrivs:.*1$' "$status" && grep -q '^Seccomp:.*2$' "$status"
}

data_is_private() {
  [[ $(stat --format '%U %a' "$data") == "codelab 700" && $(stat --format '%U %a' "$settings") == "root 600" ]]
}

installed_version() {
  [[ $(dpkg-query --show --showformat '${Version}' codelab) == "$1" ]]
}

other_address() {
  echo 'CODELAB_ADDR=127.0.0.1:8090' >>"$settings"
  systemctl restart codelab.service
  port=8090
  wait_until is_ready
}

upgrade() {
  local before
  before=$(main_pid)
  apt install "$package" && is_active && [[ $(main_pid) != "$before" ]] && wait_until is_ready
}

# Everything by that name outside of what the test brought and what logs keep.
nothing_left() {
  local left
  left=$(find / -xdev \( -path /case -o -path /proc -o -path /sys -o -path /run/log -o -path /var/log \) -prune -o \
    -iname '*codelab*' -print)
  [[ -z $left ]] || { echo "$left" && return 1; }
}

check "no compiler in this root" no_compiler
must "an older package installs" apt install "$older"
check "the older version is noted" installed_version 0.0.1-1
must "the service starts by itself" wait_until is_ready
check "the service is enabled" systemctl is-enabled codelab.service
check "it runs as its own user, without rights" runs_as_its_user
check "data and keys are private" data_is_private
must "it made its keys" read_key "$data"
check "a first answer comes" answers before
must "settings of the environment file count" other_address

must "an upgrade restarts the service" upgrade
check "the new version is noted" installed_version "$version-1"
check "changed settings stay" grep -q 8090 "$settings"
check "the data is still there" remembers before
check "an answer comes after the upgrade" answers after
check "no decision in the audit log was touched" setpriv --reuid codelab --regid codelab --clear-groups \
  codelab audit verify --data-dir "$data"
check "it is still its own user, without rights" runs_as_its_user
check "no file of the package differs from what was packed" dpkg --verify codelab

main=$(main_pid)
must "the package is removed" apt remove codelab
check "the service is gone" absent "/proc/$main" /usr/bin/codelab /usr/lib/systemd/system/codelab.service
check "data and settings stay" test -s "$data/codelab.db" -a -s "$settings"
must "it installs again" apt install "$package"
must "the service is back" wait_until is_ready
check "the data is as it was" remembers before
must "the package is purged" apt purge codelab
check "nothing is left" nothing_left
check "the user is gone" bash -c '! getent passwd codelab'
