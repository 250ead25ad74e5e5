// A program that gives an LLM the skills as tools, with Node.js 22.18 or newer: node agent.ts. OPENAI_BASE_URL, OPENAI_API_KEY and MODEL name an
// API like OpenAI's; BRIDGE_AUTHORIZATION, if set, is a header such as "Bearer <key>".
import { createHash, randomUUID } from "node:crypto";
const task = "Turn this Markdown into HTML: # Hello", conversation = randomUUID();
const messages: any[] = [{ role: "user", content: task }];
const exit = (text: string) => (console.error(text), process.exit(1));
const needed = { OPENAI_BASE_URL: "the URL of an API like OpenAI's, such as https://api.openai.com/v1", MODEL: "the name of a model there" };
for (const [name, what] of Object.entries(needed)) process.env[name] || exit(`${name} is not set: ${what}`);
const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));
async function post(url: string, body: object, variable: string, scheme = ""): Promise<any> {
  const headers = new Headers({ "Content-Type": "application/json" });
  if (process.env[variable]) headers.set("Authorization", scheme + process.env[variable]);
  for (const pause of [1, 2, 4, 8, 0]) try {
    const answer = await fetch(url, { method: "POST", body: JSON.stringify(body), headers });
    const text = await answer.text();
    if (answer.status !== 401 && (answer.ok || text.includes('"jsonrpc"'))) return JSON.parse(text);
    exit(`${url}: HTTP ${answer.status}${[401, 403].includes(answer.status) ? `; is ${variable} right?` : ""} ${text}`);
  } catch (error) { // there is no connection, or it was lost
    pause ? await sleep(1000 * pause) : exit(`${url}: ${error}`);
  }
}
async function bridge(method: string, params: object): Promise<any> {
  const answer = await post("http://localhost:8080/rpc", { jsonrpc: "2.0", id: 1, method, params }, "BRIDGE_AUTHORIZATION");
  return answer.result ?? answer.error;
}
async function execute(id: string, name: string, text: string): Promise<any> {
  let args;
  try { args = JSON.parse(text || "{}"); } catch (error) { return { error: `the arguments are not JSON: ${error}` }; }
  const digest = createHash("sha256").update(`${conversation} ${messages.length} ${id}`).digest("hex");
  const idempotency_key = digest.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/, "$1-$2-4$3-8$4-$5");
  let run = await bridge("execute_skill", { name, args, idempotency_key, wait_ms: 20000 });
  while (run.status === "running" || (run.error ?? run.data)?.next === "follow_run") {
    await sleep(run.retry_after_ms ?? 1000);
    run = await bridge("get_run", { run_token: run.run_token ?? run.data?.run_token });
  }
  return run;
}
const list = { detail: "tools", format: "openai", limit: 128 };
const listed = await bridge("list_skills", list);
const found = listed.next_cursor ? await bridge("list_skills", { ...list, query: task }) : listed;
const tools = found.tools?.length ? found.tools : listed.tools;
if (!tools?.length) exit(`there are no tools: ${JSON.stringify(listed)}`);
do {
  const request = { model: process.env.MODEL, messages, tools };
  const answer = await post(process.env.OPENAI_BASE_URL + "/chat/completions", request, "OPENAI_API_KEY", "Bearer ");
  messages.push(answer.choices[0].message);
  for (const { id, function: f } of answer.choices[0].message.tool_calls ?? [])
    messages.push({ role: "tool", tool_call_id: id, content: JSON.stringify(await execute(id, f.name, f.arguments)) });
} while (messages.at(-1).role === "tool");
console.log(messages.at(-1).content);
