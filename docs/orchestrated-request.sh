#!/usr/bin/env bash
# One orchestrated request from beginning to end, with nothing but curl. docs/orchestrated-request.md explains it.
# Needs a running server (CODELAB_URL, default http://127.0.0.1:8080) and a user's token (TOKEN, or `codelab` in the PATH).
set -euo pipefail

url=${CODELAB_URL:-http://127.0.0.1:8080}
token=${TOKEN:-$(codelab token --user 1)}
seen=0 # the number of the last event that was looked at

api() { # METHOD PATH [BODY]
  curl -sS --fail-with-body -X "$1" "$url$2" -H "Authorization: Bearer $token" \
    -H 'Content-Type: application/json' ${3:+-d "$3"}
}

field() { # NAME: the first value of that name in the JSON on standard input
  grep -oE "\"$1\":(\"[^\"]*\"|[0-9]+)" | head -n 1 | sed -E 's/^"[^"]*"://; s/^"(.*)"$/\1/'
}

say() { printf '\n== %s\n' "$*"; }

next_event() { # TYPE: waits for the next event of that type and puts its JSON into $event
  local _
  for _ in $(seq 300); do
    event=$(api GET "/my/chat/$session/events/?follow=false&after=$seen" |
      grep -A 1 "^event: $1\$" | sed -n 's/^data: //p' | head -n 1 || true)
    if [ -n "$event" ]; then
      seen=$(field seq <<<"$event")
      return
    fi
    sleep 0.1
  done
  echo "no $1 event came" >&2
  exit 1
}

run_tool() { # RESULT: claims the waiting tool call, as a tool runner does, and sends the result
  next_event tool_call
  call=$(field call_id <<<"$event")
  echo "tool call: $(field name <<<"$event") ($call)"
  api POST "/my/chat/$session/tool_calls/$call/claim/" '{"client_id": "curl"}' && echo
  api POST "/my/chat/$session/tool_calls/$call/result/" "{\"client_id\": \"curl\", \"result\": $1}" && echo
}

say 'A session in your default project'
answer=$(api POST /my/chat/sessions/ '{}')
echo "$answer"
session=$(field session_id <<<"$answer")

say 'A message that names no agent: it is accepted at once and planned'
api POST "/my/chat/$session/message/" '{"content": "Look at my project and write a short note about it"}' && echo

say 'The plan: three tasks, so a person decides'
next_event plan_request
echo "$event"
plan=$(field plan_id <<<"$event")

say 'Approve it'
api POST "/my/chat/$session/plans/$plan/decision/" '{"decision": "approve"}' | field status

say 'The first task lists the files of the workspace, on your machine'
run_tool '{"success": true, "files": [{"path": "src/main.rs", "type": "file", "size": 120, "modified": "2026-01-13T20:00:00Z"}]}'

say 'The second task wants to write a file, and that asks: the digest says what exactly'
next_event approval_request
echo "$event"
call=$(field call_id <<<"$event")
digest=$(field digest <<<"$event")
api POST "/my/chat/$session/approvals/$call/decision/" "{\"decision\": \"approve\", \"digest\": \"$digest\"}" && echo
run_tool '{"success": true, "size": 150, "timestamp": "2026-01-13T20:00:01Z"}'

say 'The answer'
next_event workflow_completed
echo "$event"

say 'Every step, as the event log holds it'
api GET "/my/chat/$session/events/?follow=false" | sed -n 's/^event: //p' | paste -sd ' ' | fold -s -w 118

say 'What was said'
api GET "/my/chat/$session/messages/" && echo

say 'Who decided what'
api GET "/my/chat/$session/audit/" && echo
