# shellcheck shell=bash
# Sourced by ./run, ./test and bench/run: checks what must be on the machine before a build. It installs nothing.

# Prints one line about the first thing that is missing to build the workspace in $1, or nothing.
build_problem() {
  local root=$1 wanted found
  wanted=$(sed -n 's/^channel *= *"\(.*\)"$/\1/p' "$root/rust-toolchain.toml")
  if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
    echo "Rust $wanted is missing: install rustup from https://rustup.rs and try again."
    return
  fi
  # rustup chooses the pinned toolchain by the folder it is called in, and installs it where it may.
  if ! found=$(cd "$root" && rustc --version) || ! (cd "$root" && cargo --version >/dev/null); then
    echo "Rust $wanted does not work: try 'rustup toolchain install $wanted'."
    return
  fi
  found=$(cut -d' ' -f2 <<<"$found")
  if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
    echo "Rust $wanted or newer is needed, but this is $found: try 'rustup toolchain install $wanted'."
    return
  fi
  if ! command -v cc >/dev/null; then
    echo "A C compiler is missing (cc; on Debian: apt-get install build-essential)."
  fi
}

# The same for building the web page in $1.
web_problem() {
  local root=$1 tool wanted found
  wanted=$(sed -n 's/^ *"node": *">=\([0-9.]*\)".*$/\1/p' "$root/package.json")
  for tool in node npm; do
    if ! command -v "$tool" >/dev/null; then
      echo "$tool is missing: install Node.js $wanted or newer from https://nodejs.org and try again."
      return
    fi
  done
  found=$(node --version)
  if [[ $(printf '%s\n' "$wanted" "${found#v}" | sort -V | head -n 1) != "$wanted" ]]; then
    echo "Node.js $wanted or newer is needed for the web page, but this is ${found#v}: install a newer one from https://nodejs.org."
  fi
}

# Prints the Debian mirror that apt uses on this machine, or nothing if there is none.
debian_mirror() {
  { apt-get indextargets --format '$(REPO_URI)' 2>/dev/null || true; } | sed 's#/*$##' | grep --max-count=1 '/debian$' || true
}
