#!/usr/bin/env bash
# Inside an empty root, as an ordinary person: install an older package, use it, upgrade, find the data, remove.
#   person.sh tar|wheel|npm OLDER_PACKAGE PACKAGE VERSION
set -euo pipefail

kind=$1 older=$2 package=$3 version=$4
# shellcheck source=tests/packages.d/inside.sh
. /case/inside.sh
cd "$HOME"
mkdir -p "$HOME/.local/bin"
export PATH=$HOME/.local/bin:$PATH
# There is no network. pipx wants a pip of its own; Debian keeps one for virtual environments.
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/usr/share/python-wheels PIP_DISABLE_PIP_VERSION_CHECK=1
data=$HOME/.local/share/codelab

npm() {
  node /case/npm/bin/npm-cli.js --global --prefix "$HOME/.local" --offline --no-audit --no-fund --no-update-notifier "$@"
}

install_package() {
  case $kind in
  tar) tar -xzf "$1" --strip-components=1 -C "$HOME/.local" ;;
  wheel) pipx install --force "$1" ;;
  npm) npm install "$1" ;;
  esac
}

remove_package() {
  case $kind in
  tar) tar -tzf "$package" | sed -n 's|^[^/]*/\(.*[^/]\)$|\1|p' | (cd "$HOME/.local" && xargs -d '\n' rm --) ;;
  wheel) pipx uninstall codelab ;;
  npm) npm uninstall codelab ;;
  esac
}

installed_version() {
  case $kind in
  tar) : ;; # An archive has no database of what is installed.
  wheel) pipx list | grep -q "package codelab $1," ;;
  npm) npm list codelab | grep -q "codelab@$1\$" ;;
  esac
}

says_its_version() {
  [[ $(codelab --version) == "codelab $program_version" ]]
}

check "no compiler in this root" no_compiler
must "an older package installs" install_package "$older"
program_version=$(codelab --version | cut -d' ' -f2)
check "the older version is noted" installed_version 0.0.1
must "it starts" start codelab serve --addr 127.0.0.1:0
must "it made its keys" read_key "$data"
check "a first answer comes" answers before
must "it stops when told" stop

must "the package installs over it" install_package "$package"
check "the new version is noted" installed_version "$version"
check "the program says its version" says_its_version
must "it starts again" start codelab serve --addr 127.0.0.1:0
must "it is ready again" is_ready
check "the data is still there" remembers before
check "an answer comes after the upgrade" answers after
must "it stops again" stop
check "no decision in the audit log was touched" codelab audit verify

must "the package is removed" remove_package
hash -r
check "the program is gone" absent "$HOME/.local/bin/codelab" "$HOME/.local/lib/node_modules/codelab" \
  "$HOME/.local/share/man/man1/codelab.1" "$HOME/.local/pipx/venvs/codelab" "$HOME/.local/share/pipx/venvs/codelab"
check "the data stays until a person deletes it" test -s "$data/codelab.db"
