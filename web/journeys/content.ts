// A project with something going on in it: what screenshots and accessibility checks look at.
import { hasResult, isPlanning, lastOf, offers, type Rule } from "./model";
import { until, type World } from "./world";

const BEFORE = `import { request } from "./http";

export interface Options {
  timeoutMs: number;
}

export async function load(path: string, options: Options) {
  const answer = await request(path, { timeoutMs: options.timeoutMs });
  if (answer.status !== 200) {
    throw new Error(\`unexpected status \${answer.status}\`);
  }
  return answer.body;
}
`;
const AFTER = BEFORE.replace(
  "  timeoutMs: number;\n",
  "  timeoutMs: number;\n  /** How often a failed load is tried again. */\n  retries: number;\n",
).replace(
  "  const answer = await request(path, { timeoutMs: options.timeoutMs });\n  if (answer.status !== 200) {",
  "  const answer = await retry(options.retries, () => request(path, { timeoutMs: options.timeoutMs }));\n  if (answer.status !== 200) {",
);

const SUMMARY = `I looked at how loading works today.

| file | role |
|---|---|
| \`src/load.ts\` | asks once, throws on any other status |
| \`src/http.ts\` | the only place that opens sockets |

**What I suggest**

1. Add \`retries\` to \`Options\`.
2. Retry on 429 and 5xx only, with growing pauses.

\`\`\`ts
const answer = await retry(options.retries, () => request(path));
\`\`\`
`;

/** An answer with a diagram in it. */
const DRAWN = `A load goes through these steps:

\`\`\`mermaid
sequenceDiagram
  participant Caller
  participant Loader
  participant Server
  Caller->>Loader: load(path)
  Loader->>Server: GET path
  Server-->>Loader: 503
  Note over Loader: waits, then tries again
  Loader->>Server: GET path
  Server-->>Loader: 200
  Loader-->>Caller: body
\`\`\`

And this is what it decides:

\`\`\`mermaid
graph LR
  A[Answer] --> B{Status}
  B -->|200| C[Body]
  B -->|429, 5xx| D[Wait]
  D --> A
  B -->|other| E[Error]
\`\`\`
`;

/** An answer with everything that is more than text. */
export const RICH = `The change:

\`\`\`ts
const answer = 42; // the answer
\`\`\`

\`\`\`diff
@@ -1 +1 @@
-const answer = 41;
+const answer = 42;
\`\`\`

| file | what changes in it, said at some length so that it does not fit | lines | more | and more | and still more |
|---|---|--:|---|---|---|
| \`src/a_rather_long_name.ts\` | the answer to everything, which was wrong for a while | 1,024 | yes | of course | it goes on |

It costs $5 to $10. The sum is $\\frac{n(n+1)}{2}$, and

$$
\\sum_{i=1}^n i = \\frac{n(n+1)}{2}
$$
`;

const TASKS = [
  {
    id: "survey",
    agent: "agent_analyzer",
    description: "Find every place that loads over the network and list how it fails today",
    depends_on: [],
  },
  {
    id: "rules",
    agent: "agent_researcher",
    description: "Look up which answers are worth a retry and how long to wait",
    depends_on: [],
  },
  {
    id: "design",
    agent: "agent_analyzer",
    description: "Decide on one retry policy for all callers",
    depends_on: ["survey", "rules"],
  },
  {
    id: "retry",
    agent: "agent_coder",
    description: "Write the retry function with its limits",
    depends_on: ["design"],
  },
  { id: "callers", agent: "agent_coder", description: "Move all callers to it", depends_on: ["retry"] },
  { id: "tests", agent: "agent_coder", description: "Cover timeouts, 429 and 5xx with tests", depends_on: ["retry"] },
  { id: "docs", agent: "agent_writer", description: "Describe the policy in the guide", depends_on: ["design"] },
  {
    id: "review",
    agent: "agent_analyzer",
    description: "Check that nothing retries twice",
    depends_on: ["callers", "tests"],
  },
].map((task) => ({ ...task, estimated_tokens: 1400 }));

export const contentRules: Rule[] = [
  (request) => (lastOf(request, "user").includes("rich answer") ? { text: RICH } : undefined),
  (request) => (lastOf(request, "user").includes("draw it") ? { text: DRAWN } : undefined),
  (request) => (isPlanning(request) ? { text: JSON.stringify({ tasks: TASKS }) } : undefined),
  (request) => {
    if (
      !offers(request, "write_file") ||
      !request.messages.some((message) => message.content?.includes("retry failed loads"))
    )
      return undefined;
    const results = request.messages.filter((message) => message.role === "tool").length;
    if (results === 0)
      return { text: "I read the loader first.", call: { name: "read_file", args: { path: "src/load.ts" } } };
    if (results === 1)
      return { text: SUMMARY, call: { name: "write_file", args: { path: "src/load.ts", content: AFTER } } };
    return { text: "Done: loads are retried now." };
  },
  (request) =>
    lastOf(request, "user").includes("Where is the configuration") && !hasResult(request)
      ? { text: "I search for it.", call: { name: "search_in_code", args: { query: "load_config" } } }
      : undefined,
  (request) =>
    lastOf(request, "user").includes("clean the build") && !hasResult(request)
      ? {
          text: "",
          call: {
            name: "execute_command",
            args: { command: "cd build && rm -rf ./cache && cargo test --workspace", timeout_seconds: 120 },
          },
        }
      : undefined,
  (request) =>
    lastOf(request, "user").includes("Which database") && !hasResult(request)
      ? {
          text: "",
          call: {
            name: "ask_followup_question",
            args: { question: "Which database should the example use?", options: ["SQLite", "PostgreSQL"] },
          },
        }
      : undefined,
  (request) => (/Describe the policy|Translate the guide/.test(lastOf(request, "user")) ? { status: 400 } : undefined),
  (request) =>
    lastOf(request, "user").includes("Move all callers") && !hasResult(request)
      ? { text: "I look for callers.", call: { name: "search_in_code", args: { query: "request(", pattern: "*.ts" } } }
      : undefined,
];

export interface Content {
  loader: string;
  /** An answer with code, a diff, a table and formulas. */
  rich: string;
  /** An answer with diagrams. */
  drawn: string;
  /** A tool call waits here and nobody is attached. */
  lonely: string;
  /** The model answered with an error here. */
  failed: string;
  /** A budget is used up here. */
  poor: string;
  plan: { session: string; planId: string };
  running: { session: string; planId: string };
}

export async function fill(world: World): Promise<Content> {
  await world.agentSays("/chat/agent_message", {
    author: "AdaptiveAgent",
    text: "Good morning. The nightly run finished: **212 tests passed**, 1 was slow (`tests/load.rs`, 41 s).",
  });
  await world.agentSays("/chat/agent_message", {
    author: "Release",
    text: "Version 0.4.2 is tagged. Changes:\n\n- plans can be edited before they run\n- approvals survive a restart\n- `codelab work` resumes after a cut",
  });
  await world.api("/chat/user_message", { text: "Thanks. Anything that needs me today?" });
  await world.agentSays("/chat/agent_message", {
    author: "AdaptiveAgent",
    text: "Two approvals are open, and one plan waits for your look.",
  });
  void world
    .agentSays("/chat/ask_user", {
      author: "AdaptiveAgent",
      question: "Should I start the dependency update tonight, or wait until the release is out?",
    })
    .catch(() => undefined);

  const lonely = await world.session("Where is the configuration read?");
  await world.send(lonely, "Where is the configuration read?", "researcher");
  await world.awaitCall(lonely);
  await world.attach();
  const loader = await world.session("Retry failed loads");
  await world.send(loader, "Please make the loader retry failed loads. Look at how it works first.", "coder");
  await world.finishCall(loader, await world.awaitCall(loader), {
    success: true,
    content: BEFORE,
    size: BEFORE.length,
  });
  const build = await world.session("Clean the build");
  await world.send(build, "Please clean the build and run the tests", "coder");
  const example = await world.session("Example for the guide");
  await world.send(example, "Write an example for the guide. Which database fits?", "writer");

  const plan = { session: await world.session("One retry policy everywhere"), planId: "" };
  await world.send(plan.session, "Give all network calls one retry policy");
  plan.planId = await planOf(world, plan.session);
  const running = { session: await world.session("Retry policy, first half"), planId: "" };
  await world.send(running.session, "Give all network calls one retry policy");
  running.planId = await planOf(world, running.session);
  await world.api(`/my/chat/${running.session}/plans/${running.planId}/decision/`, { decision: "approve" });
  await world.awaitCall(running.session, (name) => name === "search_in_code");
  for (const text of [
    "The loader lives in src/load.ts and is used by seven callers",
    "Retries are allowed on 429 and 5xx only",
  ]) {
    const { agents } = await world.api<{ agents: { agent_id: string; name: string }[] }>("/my/projects/1/agents/");
    const coder = agents.find((agent) => agent.name === "agent_coder")!;
    await world.api(`/my/projects/1/agents/${coder.agent_id}/context/`, { text, type: "note", success: true });
  }
  const failed = await world.session("Translation of the guide");
  await world.send(failed, "Translate the guide", "writer");
  const { session_id: poor } = await world.api<{ session_id: string }>("/my/chat/sessions/", {
    title: "A small budget",
    budget_tokens: 100,
  });
  await world.send(poor, "Summarise the guide", "writer");
  const rich = await world.session("Code, tables and formulas");
  await world.send(rich, "Give me a rich answer", "coder");
  const drawn = await world.session("How a load works");
  await world.send(drawn, "Please draw it", "writer");
  return { loader, rich, drawn, lonely, failed, poor, plan, running };
}

async function planOf(world: World, session: string): Promise<string> {
  return until(async () => {
    const { plans } = await world.api<{ plans: { plan_id: string }[] }>(`/my/chat/${session}/plans/`);
    return plans[0]?.plan_id;
  });
}
