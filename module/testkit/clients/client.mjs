// Calls the bridge with @a2a-js/sdk, in the versions that it speaks, and prints a line for each test.
//
// The environment has ORIGIN, the bridge's origin; AUTHORIZATION, the credentials of its user; CONTROL, the URL of a server that
// opens the gate of acme.later (/open) and lists the webhook's requests (/events, which are sent to /hook); and KEY, the public
// key of signed cards as a JWK.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { ListTasksRequest, SendMessageRequest, taskStateToJSON, verifyAgentCardSignature } from "@a2a-js/sdk";

const { ORIGIN, AUTHORIZATION, CONTROL, KEY } = process.env;
const unknown = "01a20712-b61f-735b-bbde-fe94ff813b8e";

// fetchAs sends the credentials, and the version whose card the resolver gets.
const fetchAs = (version) => (url, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("Authorization", AUTHORIZATION);
  if (version && !init.method?.startsWith("P")) headers.set("A2A-Version", version);
  return fetch(url, { ...init, headers });
};

// connect returns a client from the card below a path.
function connect(version, path = "") {
  const options = { fetchImpl: fetchAs(version), legacyCompat: { enabled: version === "0.3" } };
  return new ClientFactory({
    transports: [new JsonRpcTransportFactory(options)], cardResolver: new DefaultAgentCardResolver(options),
  }).createFromUrl(ORIGIN, path + "/.well-known/agent-card.json");
}

const message = (parts, task = {}, configuration = undefined) => SendMessageRequest.fromJSON({
  message: { messageId: randomUUID(), role: "ROLE_USER", parts, taskId: task.id, contextId: task.contextId }, configuration,
});
const invoke = (skill, input = {}, configuration = undefined) => message([{ data: { skill, input } }], {}, configuration);
const state = (task) => taskStateToJSON(task.status.state).replace("TASK_STATE_", "");
const callOf = (task) => task.artifacts[0]?.parts[0].content.value.call;

function describe({ payload: { $case, value } }) {
  if ($case === "task") return "task " + state(value);
  return $case === "statusUpdate" ? state(value) : "artifact";
}

async function sendAndExpect(agent, request, want) {
  const task = await agent.sendMessage(request);
  assert.equal(state(task), want);
  return task;
}

// later starts a run of acme.later, and breaks its stream when the run is accepted.
async function later(agent) {
  const events = [];
  let id;
  const broken = new AbortController();
  for await (const event of agent.sendMessageStream(invoke("acme.later", { call: "one" }), { signal: broken.signal })) {
    id ??= event.payload.value.id;
    if (events.push(describe(event)) === 2) break;
  }
  broken.abort();
  assert.deepEqual(events, ["task SUBMITTED", "WORKING"]);
  return id;
}

async function fails(call, name) {
  await assert.rejects(call, (error) => {
    const names = [error.name, error.constructor.name, error.cause?.name, error.cause?.constructor.name];
    assert.ok(names.some((n) => n?.includes(name)), `${names.join()}: ${error.message}, want ${name}`);
    return true;
  });
}

const each = async (stream) => { for await (const _ of stream); };

const tests = {
  async send(agent) {
    const task = await sendAndExpect(agent, invoke("acme.echo", { call: "one" }), "COMPLETED");
    assert.equal(callOf(task), "one");
    const got = await agent.getTask({ id: task.id, tenant: "", historyLength: undefined });
    assert.equal(callOf(got), "one");
    assert.equal(got.history.length, 1);
    await sendAndExpect(agent, invoke("acme.fails"), "FAILED");
    const reply = await agent.sendMessage(invoke("acme.reply", { call: "two" }));
    assert.ok(reply.messageId && !reply.status, "a reply is a message");
  },
  async stream(agent) {
    const events = [];
    for await (const event of agent.sendMessageStream(invoke("acme.echo", { call: "one" }))) events.push(describe(event));
    assert.deepEqual(events, ["task SUBMITTED", "WORKING", "artifact", "COMPLETED"]);
  },
  async dialogue(agent) {
    let task = await sendAndExpect(agent, message([{ text: "Hello!" }]), "INPUT_REQUIRED");
    for (const [text, want] of [["acme.ask", "INPUT_REQUIRED"], ["hip", "INPUT_REQUIRED"], ["3", "COMPLETED"]]) {
      task = await sendAndExpect(agent, message([{ text }], task), want);
    }
  },
  async list(agent, version) {
    if (version === "0.3") return; // it has no such method
    const tasks = [];
    for (let pageToken = ""; ;) {
      const page = await agent.listTasks(ListTasksRequest.fromJSON({ pageSize: 2, pageToken, status: "TASK_STATE_COMPLETED" }));
      tasks.push(...page.tasks);
      if (!(pageToken = page.nextPageToken)) { assert.equal(tasks.length, page.totalSize); break; }
    }
    assert.ok(tasks.length >= 3 && tasks.every((task) => state(task) === "COMPLETED"));
  },
  async cancel(agent) {
    const asking = await sendAndExpect(agent, invoke("acme.ask"), "INPUT_REQUIRED");
    assert.equal(state(await agent.cancelTask({ id: asking.id, tenant: "", metadata: undefined })), "CANCELED");
    await fails(agent.cancelTask({ id: await later(agent), tenant: "", metadata: undefined }), "TaskNotCancelable");
  },
  async errors(agent) {
    const get = (id) => agent.getTask({ id, tenant: "", historyLength: undefined });
    await fails(get(unknown), "TaskNotFound");
    await fails(each(agent.resubscribeTask({ id: unknown, tenant: "" })), "TaskNotFound");
    await assert.rejects(agent.sendMessage(invoke("acme.eccho")), /eccho/);
    await assert.rejects(each(agent.sendMessageStream(invoke("acme.eccho"))), /eccho/);
    const ended = await sendAndExpect(agent, invoke("acme.echo"), "COMPLETED");
    await fails(agent.sendMessage(message([{ text: "more" }], ended)), "UnsupportedOperation");
    await fails(each(agent.resubscribeTask({ id: ended.id, tenant: "" })), "UnsupportedOperation");
  },
  async push(agent, version) {
    const task = await sendAndExpect(agent, invoke("acme.ask"), "INPUT_REQUIRED");
    const config = { tenant: "", taskId: task.id, id: "hook", url: `${CONTROL}/hook/${version}`, token: "tok-en", authentication: undefined };
    assert.equal((await agent.createTaskPushNotificationConfig(config)).id, "hook");
    const name = { tenant: "", taskId: task.id, id: "hook" };
    assert.equal((await agent.getTaskPushNotificationConfig(name)).url, config.url);
    const { configs } = await agent.listTaskPushNotificationConfig({ tenant: "", taskId: task.id, pageSize: 0, pageToken: "" });
    assert.deepEqual(configs.map((c) => c.id), ["hook"]);
    await sendAndExpect(agent, message([{ data: { text: "hip", count: 3 } }], task), "COMPLETED");
    // The server answers when it has got the event that ends the task.
    assert.match(await (await fetch(`${CONTROL}/events/${version}`)).text(), /tok-en .*completed/is);
    await agent.deleteTaskPushNotificationConfig(name);
    await assert.rejects(agent.getTaskPushNotificationConfig(name));
  },
  async cards(agent, version) {
    const card = await agent.getAgentCard(); // the extended one
    if (version === "1.0") {
      const verify = verifyAgentCardSignature(async () => JSON.parse(KEY));
      const known = await new DefaultAgentCardResolver({ fetchImpl: fetchAs(version) }).resolve(ORIGIN);
      await verify(card);
      await verify(known);
      await assert.rejects(verify({ ...known, name: "Another" }));
    }
    assert.ok(card.skills.some((skill) => skill.id === "acme.ask") && card.capabilities.streaming);
    const one = await connect(version, "/a2a/acme.echo");
    assert.equal(callOf(await sendAndExpect(one, message([{ text: "one" }]), "COMPLETED")), "one");
  },
  // The last test, as it opens the gate.
  async subscribe(agent) {
    const id = await later(agent);
    const events = [];
    for await (const event of agent.resubscribeTask({ id, tenant: "" })) {
      if (events.push(describe(event)) === 1) await fetch(`${CONTROL}/open`); // the client is subscribed
    }
    assert.deepEqual(events, ["task WORKING", "artifact", "COMPLETED"]);
  },
};

const version = process.argv[2];
const agent = await connect(version);
assert.equal(agent.protocolVersion, version);
for (const [name, test] of Object.entries(tests)) {
  try {
    await test(agent, version);
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`FAIL ${name}: ${error.stack}`);
    process.exitCode = 1;
  }
}
