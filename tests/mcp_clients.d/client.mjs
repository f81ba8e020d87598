// Calls every tool with an official TypeScript SDK. Arguments: the address, a token, and which client: `sdk` (version 1),
// `legacy` or `2026-07-28` (version 2). It prints the version of the protocol that was spoken.
import assert from 'node:assert/strict';

const [url, token, kind] = process.argv.slice(2);
const info = { name: 'codelab-test', version: '1' };
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const LIMIT_MS = 60_000;

async function connect() {
  if (kind === 'sdk') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info);
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
    await client.connect(transport);
    const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
    return { client, call, version: transport.protocolVersion };
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const mode = kind === 'legacy' ? 'legacy' : { pin: kind };
  const client = new Client(info, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
  return { client, call, version: client.getNegotiatedProtocolVersion() };
}

const { client, call, version } = await connect();

// The SDK checks the data of a result against the tool's output schema.
async function data(name, args, options) {
  const result = await call(name, args, options);
  assert.ok(!result.isError, JSON.stringify(result));
  assert.ok(result.content[0].text.length > 0);
  return result.structuredContent;
}

async function until(session, isDone) {
  for (const end = Date.now() + LIMIT_MS; ; ) {
    const found = await data('get_session', { session_id: session });
    if (isDone(found)) return found;
    assert.ok(Date.now() < end, `not in time: ${JSON.stringify(found)}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

const { tools } = await client.listTools();
const names = ['ask_agent', 'decide_approval', 'get_session', 'list_agents', 'list_approvals', 'start_plan'];
assert.deepEqual(tools.map((tool) => tool.name).sort(), names);
const { agents } = await data('list_agents', {});
assert.ok(agents.some((agent) => agent.name === 'agent_coder'));

const told = [];
const asked = await data(
  'ask_agent',
  { agent: 'coder', message: 'Write a function that sorts numbers' },
  { onprogress: (progress) => told.push(progress.progress) },
);
assert.equal(asked.status, 'awaiting_approval', JSON.stringify(asked));
assert.ok(told.length > 0, 'no progress was told');
const { approvals } = await data('list_approvals', {});
const approval = approvals.find((open) => open.session_id === asked.session_id);
assert.equal(approval.digest, asked.pending.digest);
const decision = { session_id: asked.session_id, call_id: approval.call_id, decision: 'reject', feedback: 'not now' };
await data('decide_approval', { ...decision, digest: approval.digest });
await until(asked.session_id, (session) => !session.busy);
const again = await call('decide_approval', decision);
assert.ok(again.isError && again.content[0].text.includes('CONFLICT'), JSON.stringify(again));

const plan = await data('start_plan', { message: 'Explain what this project does' });
assert.ok(plan.workflow_id);
await until(plan.session_id, (session) => !session.busy || session.waiting.length > 0);
await assert.rejects(call('no_such_tool', {}));
await client.close();
console.log(version);
