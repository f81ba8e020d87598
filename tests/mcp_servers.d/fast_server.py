"""An MCP server over HTTP, made with fastmcp. It prints its address."""

import socket

import uvicorn
from fastmcp import Context, FastMCP

server = FastMCP("fast")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool
async def count(to: int, context: Context) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await context.report_progress(progress=number, total=to)
    return f"counted to {to}"


@server.tool
def fail() -> str:
    """Does not work."""
    raise ValueError("there is no such thing")


listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
app = server.http_app()
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
