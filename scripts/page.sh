# shellcheck shell=bash
# Sourced by ./run and scripts/package: builds the web page, which is part of the program, when it is not up to date.

# True when a source of the page in $1 is newer than its last build.
page_is_stale() {
  local built=$1/dist/index.html
  [[ -e $1/package.json ]] || return 1
  [[ ! -e $built ]] ||
    [[ -n $(find "$1" \( -name node_modules -o -name dist \) -prune -o -type f -newer "$built" -print -quit) ]]
}

build_page() {
  local web=$1
  echo "Building the web page…" >&2
  if [[ ! -e $web/node_modules/.package-lock.json || $web/package-lock.json -nt $web/node_modules/.package-lock.json ]]; then
    (cd "$web" && npm ci --no-audit --no-fund) >&2
  fi
  (cd "$web" && npm run build) >&2
}
