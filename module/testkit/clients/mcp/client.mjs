// Calls the bridge with the SDK of MCP for TypeScript, and prints a line for each test.
//
// The arguments are the package of the SDK, the version that it has to negotiate, and either the URL of the endpoint or a command
// with its arguments. CONTROL is the URL of a server that opens the gate of acme.later (/open).
import assert from "node:assert/strict";

const [sdk, version, target, ...args] = process.argv.slice(2);
const { CONTROL } = process.env;
const newest = sdk === "@modelcontextprotocol/client";
const modern = version === "2026-07-28";

const modules = newest
  ? [sdk, sdk, sdk + "/stdio"]
  : [sdk + "/client/index.js", sdk + "/client/streamableHttp.js", sdk + "/client/stdio.js"];
const [{ Client }, { StreamableHTTPClientTransport }, { StdioClientTransport }] = await Promise.all(modules.map((name) => import(name)));

const client = new Client({ name: "test", version: "1" }, newest ? { versionNegotiation: { mode: modern ? "auto" : "legacy" } } : {});
// In the legacy versions, a client cancels a call with a notification. Without sessions the bridge can't know the call by its id, so the
// answer comes nevertheless, which the SDK ignores and reports.
const isLate = (error) => !modern && target.startsWith("http") && /unknown message ID/.test(error.message);
client.onerror = (error) => { if (!isLate(error)) console.log(`FAIL: the client reports ${error.stack}`); };
await client.connect(target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, env: process.env, stderr: "inherit" }));

// pages reads all pages of a list.
async function pages(list, member) {
  const all = [];
  let count = 0;
  for (let cursor; ;) {
    const page = await list(cursor === undefined && newest ? { cursor: undefined } : { cursor });
    all.push(...page[member]);
    count++;
    if (!(cursor = page.nextCursor)) return { all, count };
  }
}

const call = (name, input = {}, ...options) => client.callTool({ name, arguments: input }, ...options);
const textOf = (result) => result.content.map((c) => c.text).join("\n");

const tests = {
  async version() {
    const said = newest ? client.getNegotiatedProtocolVersion() : version;
    assert.equal(said, version);
    assert.ok(client.getServerVersion().name);
    assert.ok(client.getInstructions() !== undefined && client.getServerCapabilities().tools);
  },
  async tools() {
    const { all } = await pages((params) => client.listTools(params), "tools");
    assert.equal(all.length, 129);
    assert.equal(new Set(all.map((tool) => tool.name)).size, 129);
    assert.deepEqual(all.find((tool) => tool.name === "acme_ask").inputSchema.required, ["text", "count"]);
    const count = all.find((tool) => tool.name === "acme_count").outputSchema;
    assert.equal(count.type, modern ? "integer" : "object");
  },
  async call() { // the client checks outputs against the schemas that it has read
    const result = await call("acme_echo", { call: "one" });
    assert.equal(result.structuredContent.call, "one");
    assert.deepEqual(JSON.parse(textOf(result)), result.structuredContent);
    const count = await call("acme_count");
    assert.deepEqual(count.structuredContent, modern ? 3 : { result: 3 });
    const picture = await call("acme_picture");
    assert.equal(picture.content[0].mimeType, "image/png");
  },
  async errors() {
    const wrong = await call("acme_ask", { text: "hip", count: "many" });
    assert.ok(wrong.isError && /count/.test(textOf(wrong)), textOf(wrong));
    const failed = await call("acme_fails");
    assert.ok(failed.isError && /It is broken/.test(textOf(failed)), textOf(failed));
    await assert.rejects(call("acme_eccho"), { code: -32602 });
    await assert.rejects(call("acme_broken"), { code: -32603 });
  },
  async resources() {
    const { all } = await pages((params) => client.listResources(params), "resources");
    assert.equal(all.length, 128);
    const { contents } = await client.readResource({ uri: "skill://acme.echo/SKILL.md" });
    assert.match(contents[0].text, /acme_echo/);
    const { resourceTemplates } = await client.listResourceTemplates();
    assert.deepEqual(resourceTemplates.map((t) => t.uriTemplate), ["skill://{name}/{file}"]);
    // The newest SDK has one code for both eras.
    await assert.rejects(client.readResource({ uri: "skill://acme.none/SKILL.md" }), { code: modern || newest ? -32602 : -32002 });
  },
  async prompts() {
    const { prompts } = await client.listPrompts();
    assert.deepEqual(prompts.map((p) => p.name), ["acme_poem"]);
    const { messages } = await client.getPrompt({ name: "acme_poem", arguments: { mood: "merry" } });
    assert.equal(messages[0].content.text, "Roses are red.");
    await assert.rejects(client.getPrompt({ name: "acme_poem", arguments: { mood: "angry" } }), { code: -32602 });
    const { completion } = await client.complete({ ref: { type: "ref/prompt", name: "acme_poem" }, argument: { name: "mood", value: "s" } });
    assert.deepEqual(completion.values, ["sad"]);
  },
  async leave() {
    const gone = new AbortController();
    const options = { signal: gone.signal, onprogress: () => gone.abort() };
    await assert.rejects(newest ? call("acme_later", {}, options) : call("acme_later", {}, undefined, options));
    assert.ok(!(await call("acme_echo")).isError);
  },
  // The last test, as it opens the gate.
  async progress() {
    const seen = [];
    const options = {
      onprogress: async ({ progress }) => { if (seen.push(progress) === 1) await fetch(CONTROL + "/open"); },
    };
    const result = await (newest ? call("acme_later", { call: "one" }, options) : call("acme_later", { call: "one" }, undefined, options));
    assert.ok(!result.isError, textOf(result));
    assert.equal(result.structuredContent.call, "one");
    assert.ok(seen.length > 0 && seen.every((n, i) => i === 0 || n > seen[i - 1]), String(seen));
  },
};

for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`FAIL ${name}: ${error.stack}`);
    process.exitCode = 1;
  }
}
client.onerror = undefined; // the stream of a call that was left in a legacy version may still be open, and is aborted
await client.close();
