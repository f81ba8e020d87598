# shellcheck shell=bash
# Sourced by the scripts that tests/packages starts inside an empty root: starting CodeLab, asking it, counting. There is
# no curl and no compiler in there. Each check prints one line, `ok NAME` or `not ok NAME`, and tests/packages counts them.

: "${kind:=package}" # whoever sources this says what is tested
wait_limit_seconds=60
server='' port='' key=''

# check NAME COMMAND…
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "ok $kind: $name"
  else
    echo "not ok $kind: $name"
    printf '%s\n' "$output" | tail -n 20 | sed 's/^/    /'
  fi
}

# The same for something that changes variables of this shell, or that nothing after it makes sense without.
must() {
  local name=$1
  shift
  if "$@" >/case/step.log 2>&1; then
    echo "ok $kind: $name"
  else
    echo "not ok $kind: $name"
    tail -n 20 /case/step.log | sed 's/^/    /'
    exit 1
  fi
}

absent() {
  local path
  for path in "$@"; do
    [[ ! -e $path && ! -L $path ]] || { echo "$path is still there" && return 1; }
  done
}

no_compiler() {
  local tool
  for tool in cc gcc clang rustc cargo; do
    if command -v "$tool"; then return 1; fi
  done
}

# until COMMAND…: waits until it succeeds.
wait_until() {
  local deadline=$((SECONDS + wait_limit_seconds))
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

# request METHOD PATH [BODY]: prints the answer, status line and all.
request() {
  local connection body=${3:-}
  exec {connection}<>"/dev/tcp/127.0.0.1/$port" || return 1
  printf '%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Internal-Auth: %s\r\nConnection: close\r\n' "$1" "$2" "$key" >&"$connection"
  printf 'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "${#body}" "$body" >&"$connection"
  cat <&"$connection"
  exec {connection}>&-
}

is_ready() {
  { [[ $(request GET /health/ready) == 'HTTP/1.1 200 '* ]]; } 2>/dev/null
}

# answers SESSION: the demonstration model answers, and then wants to use a tool, which would be the client's to run.
answers() {
  local answer
  answer=$(request POST /agent/message/stream "{\"session_id\": \"$1\", \"message\": \"How does this work?\"}")
  if ! grep -q '"type":"assistant_message".*offline demonstration model' <<<"$answer" || ! grep -q '^event: done' <<<"$answer"; then
    printf '%s\n' "$answer"
    return 1
  fi
}

# remembers SESSION: what was asked is in the history.
remembers() {
  [[ $(request GET "/sessions/$1/history") == *'How does this work?'* ]]
}

read_key() {
  key=$(<"$1/secrets/internal_api_key") && [[ -n $key ]]
}

# start COMMAND…: a server of this shell; its address is on its standard output.
start() {
  # An earlier server's address must not be taken for this one's.
  rm -f /case/server.out
  "$@" >/case/server.out 2>/case/server.err &
  server=$!
  wait_until has_started || { cat /case/server.out /case/server.err && return 1; }
}

has_started() {
  port=$(sed -n 's|^CodeLab .* is at http://[0-9.]*:\([0-9]*\)$|\1|p' /case/server.out 2>/dev/null)
  [[ -n $port ]]
}

# A stop that was asked for is a success.
stop() {
  kill -TERM "$server" && wait "$server"
}
