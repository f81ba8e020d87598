"""Calls every tool with the official Python SDK. Arguments: the address, a token, and the mode of the client: `legacy`,
`auto`, or a version. It prints the version of the protocol that was spoken."""

import sys

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

LIMIT_SECONDS = 60


class Tools:
    def __init__(self, client):
        self.client = client

    # The SDK checks the data of a result against the tool's output schema.
    async def data(self, name, arguments, **more):
        result = await self.client.call_tool(name, arguments, **more)
        assert not result.is_error, result
        assert result.content[0].text
        return result.structured_content

    async def until(self, session_id, is_done):
        with anyio.fail_after(LIMIT_SECONDS):
            while True:
                session = await self.data("get_session", {"session_id": session_id})
                if is_done(session):
                    return session
                await anyio.sleep(0.1)


async def try_tools(client):
    tools = Tools(client)
    listed = await client.list_tools()
    assert {tool.name for tool in listed.tools} == {
        "list_agents", "ask_agent", "start_plan", "get_session", "list_approvals", "decide_approval",
    }
    agents = (await tools.data("list_agents", {}))["agents"]
    assert any(agent["name"] == "agent_coder" for agent in agents)

    told = []

    async def tell(progress, total, message):
        told.append(progress)

    question = {"agent": "coder", "message": "Write a function that sorts numbers"}
    asked = await tools.data("ask_agent", question, progress_callback=tell)
    assert asked["status"] == "awaiting_approval", asked
    assert told, "no progress was told"
    approvals = (await tools.data("list_approvals", {}))["approvals"]
    [approval] = [one for one in approvals if one["session_id"] == asked["session_id"]]
    decision = {"session_id": asked["session_id"], "call_id": approval["call_id"], "decision": "reject"}
    await tools.data("decide_approval", decision | {"digest": approval["digest"], "feedback": "not now"})
    await tools.until(asked["session_id"], lambda session: not session["busy"])
    again = await client.call_tool("decide_approval", decision)
    assert again.is_error and "CONFLICT" in again.content[0].text, again

    plan = await tools.data("start_plan", {"message": "Explain what this project does"})
    assert plan["workflow_id"]
    await tools.until(plan["session_id"], lambda session: not session["busy"] or session["waiting"])
    try:
        await client.call_tool("no_such_tool", {})
    except MCPError:
        pass
    else:
        raise AssertionError("an unknown tool was called")


async def main(url, token, mode):
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=LIMIT_SECONDS) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            await try_tools(client)
            print(client.protocol_version)


anyio.run(main, *sys.argv[1:])
