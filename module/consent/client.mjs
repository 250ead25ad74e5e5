// Calls acme.book with the SDKs of MCP and A2A for TypeScript, as a user who connects an account when asked. The arguments are the URL of the bridge and
// that of a server which connects the account of the user named in its path.
import assert from "node:assert/strict";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { SendMessageRequest, taskStateToJSON } from "@a2a-js/sdk";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [origin, control] = process.argv.slice(2);
const requestInit = (user) => ({ headers: { "X-User": user } });

async function mcp(user, mode, action) {
  const capabilities = mode ? { elicitation: { url: {} } } : {};
  const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode: mode ?? "legacy" } });
  let asked = 0;
  if (mode) client.setRequestHandler("elicitation/create", async (request) => {
    asked++;
    assert.equal(request.params.mode, "url");
    assert.ok(request.params.url.startsWith(origin + "/connect/acme?scopes="), request.params.url);
    if (action === "accept") setTimeout(() => fetch(control + "/" + user), 500);
    return { action };
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(origin + "/mcp"), { requestInit: requestInit(user) }));
  const { tools } = await client.listTools();
  assert.ok(tools.find((tool) => tool.name === "acme_book").description.endsWith("(asks the user to connect an account first)"));
  const result = await client.callTool({ name: "acme_book", arguments: {} });
  await client.close();
  return { asked, result };
}

const accepted = await mcp("ada", "auto", "accept");
assert.equal(accepted.asked, 1);
assert.ok(!accepted.result.isError, JSON.stringify(accepted.result));
console.log("ok accept");
const declined = await mcp("bob", "auto", "decline");
assert.ok(declined.asked === 1 && declined.result.isError, JSON.stringify(declined.result));
console.log("ok decline");
const legacy = await mcp("eve");
assert.ok(legacy.result.isError && legacy.result.content[0].text.includes("Ask the user to open " + origin + "/connect/acme?scopes="));
console.log("ok legacy");

const fetchImpl = (url, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("X-User", "cleo");
  return fetch(url, { ...init, headers });
};
for (const version of ["1.0", "0.3"]) {
  const options = { fetchImpl, legacyCompat: { enabled: version === "0.3" } };
  const agent = await new ClientFactory({
    transports: [new JsonRpcTransportFactory(options)], cardResolver: new DefaultAgentCardResolver(options),
  }).createFromUrl(origin, "/.well-known/agent-card.json");
  const request = SendMessageRequest.fromJSON({ message: { messageId: "m-" + version, role: "ROLE_USER", parts: [{ data: { skill: "acme.book", input: {} } }] } });
  const events = [];
  for await (const { payload: { $case, value } } of agent.sendMessageStream(request)) {
    const state = value.status ? taskStateToJSON(value.status.state).replace("TASK_STATE_", "") : "artifact";
    events.push($case === "task" ? "task " + state : state);
    if (state === "AUTH_REQUIRED") {
      assert.ok(JSON.stringify(value.status).includes("Ask the user to open " + origin + "/connect/acme?scopes="));
      setTimeout(() => fetch(control + "/cleo"), 500);
    }
  }
  assert.deepEqual(events, ["task SUBMITTED", "AUTH_REQUIRED", "WORKING", "artifact", "COMPLETED"]);
  console.log("ok stream " + version);
  await fetch(control + "/cleo/disconnect");
}
