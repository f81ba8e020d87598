"""An MCP server on standard input and output, for tests. Its argument is a folder for its traces."""

import json
import os
import sys

folder = sys.argv[1]
with open(os.path.join(folder, "pid"), "w") as file:
    file.write(str(os.getpid()))


def described():
    """What the tool `echo` is said to do; a test can change it."""
    try:
        with open(os.path.join(folder, "description")) as file:
            return file.read()
    except FileNotFoundError:
        return "Repeats the text."


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def text(content):
    return {"content": [{"type": "text", "text": content}]}


def tool(name, description):
    properties = {"text": {"type": "string"}}
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
        "annotations": {"readOnlyHint": True},
    }


def ask():
    properties = {"colour": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["colour"]}
    send({
        "id": "question",
        "method": "elicitation/create",
        "params": {"message": "Which colour?", "requestedSchema": schema},
    })
    while True:
        answer = receive()
        if answer.get("id") == "question":
            return json.dumps(answer.get("result"))


def call(params):
    name, arguments = params["name"], params.get("arguments") or {}
    with open(os.path.join(folder, "calls"), "a") as file:
        file.write(name + "\n")
    if name == "echo":
        return text("echo: " + str(arguments.get("text")))
    if name == "slow":
        token = (params.get("_meta") or {}).get("progressToken")
        send({
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 3, "total": 10, "message": "step three"},
        })
        ask()
        return text("slow is done")
    if name == "ask":
        return text("answered: " + ask())
    if name == "crash":
        sys.stderr.write("the secret is " + os.environ.get("SECRET", "") + "\n")
        os._exit(3)
    return {"content": [{"type": "text", "text": "no such tool"}], "isError": True}


if os.path.exists(os.path.join(folder, "fails")):
    sys.stderr.write("\x1b[2Jcannot log in with " + os.environ.get("SECRET", "") + "\n")
    sys.exit(4)

while True:
    request = receive()
    method, identity = request.get("method"), request.get("id")
    if identity is None:
        continue
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        send({"id": identity, "result": {
            "protocolVersion": version if version < "2026" else "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "lab", "version": "1"},
        }})
    elif method == "tools/list":
        tools = [tool("echo", described()), tool("slow", "Takes a while."),
                 tool("ask", "Asks the person."), tool("crash", "Ends the server.")]
        send({"id": identity, "result": {"tools": tools}})
    elif method == "tools/call":
        send({"id": identity, "result": call(request["params"])})
    elif method == "ping":
        send({"id": identity, "result": {}})
    else:
        send({"id": identity, "error": {"code": -32601, "message": "Method not found"}})
