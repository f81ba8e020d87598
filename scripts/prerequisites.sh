# shellcheck shell=bash
# Sourced by ./run, ./test and bench/run: what must be on the machine before anything can be built. Installs nothing itself.

# Prints one line that names the first thing missing to build the workspace in $1, or nothing.
build_problem() {
  local root=$1 wanted found
  wanted=$(sed -n 's/^channel *= *"\(.*\)"$/\1/p' "$root/rust-toolchain.toml")
  if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
    echo "Rust $wanted is missing: install rustup from https://rustup.rs and start again."
    return
  fi
  # rustup picks, and where it may also installs, the pinned toolchain by the folder it is called in.
  if ! found=$(cd "$root" && rustc --version) || ! (cd "$root" && cargo --version >/dev/null); then
    echo "Rust $wanted does not start: try 'rustup toolchain install $wanted'."
    return
  fi
  found=$(cut -d' ' -f2 <<<"$found")
  if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
    echo "Rust $wanted or newer is needed, this is $found: try 'rustup toolchain install $wanted'."
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
      echo "$tool is missing: install Node.js $wanted or newer from https://nodejs.org and start again."
      return
    fi
  done
  found=$(node --version)
  if [[ $(printf '%s\n' "$wanted" "${found#v}" | sort -V | head -n 1) != "$wanted" ]]; then
    echo "Node.js $wanted or newer is needed for the web page, this is ${found#v}: install it from https://nodejs.org."
  fi
}

# Prints the mirror from which this machine's apt takes Debian's packages; nothing where it takes none.
debian_mirror() {
  { apt-get indextargets --format '$(REPO_URI)' 2>/dev/null || true; } | sed 's#/*$##' | grep --max-count=1 '/debian$' || true
}
