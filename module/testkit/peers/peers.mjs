// peers.mjs is a server of JSON-RPC over HTTP that is made with a library for JavaScript, for comparison with the bridge, like main.go.
//
//	node peers.mjs mcp-1|mcp-2|a2a-js <url>
import { createServer } from "node:http";
import express from "express";
import { z } from "zod";

const [library, url] = process.argv.slice(2);
const tool = { description: "Does something.", inputSchema: z.object({ location: z.string(), days: z.number().optional() }) };

// call runs the skill, and returns its output.
async function call(inputs) {
  const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ inputs }) });
  const { status, output } = await response.json();
  if (status !== "completed") throw new Error(`the run is ${status}`);
  return output;
}

async function runTool(inputs) {
  const output = await call(inputs);
  return { structuredContent: output, content: [{ type: "text", text: JSON.stringify(output) }] };
}

const listeners = {
  // The TypeScript SDK of MCP, first line, without sessions: a server for each request, as its examples do.
  async "mcp-1"() {
    const { McpServer } = await import("@modelcontextprotocol/sdk/server/mcp.js");
    const { StreamableHTTPServerTransport } = await import("@modelcontextprotocol/sdk/server/streamableHttp.js");
    const app = express();
    app.use(express.json());
    app.post("/mcp", async (request, response) => {
      const server = new McpServer({ name: "peers", version: "1" });
      server.registerTool("bench_now", tool, runTool);
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
      response.on("close", () => { transport.close(); server.close(); });
      await server.connect(transport);
      await transport.handleRequest(request, response, request.body);
    });
    return app;
  },

  // The TypeScript SDK of MCP, second line.
  async "mcp-2"() {
    const { createMcpHandler, McpServer } = await import("@modelcontextprotocol/server");
    const { toNodeHandler } = await import("@modelcontextprotocol/node");
    return toNodeHandler(createMcpHandler(() => {
      const server = new McpServer({ name: "peers", version: "1" });
      server.registerTool("bench_now", tool, runTool);
      return server;
    }));
  },

  // The JavaScript SDK of A2A, with tasks in memory.
  async "a2a-js"() {
    const { TaskState } = await import("@a2a-js/sdk");
    const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = await import("@a2a-js/sdk/server");
    const { jsonRpcHandler, UserBuilder } = await import("@a2a-js/sdk/server/express");
    const executor = {
      async execute(context, bus) {
        const output = await call(context.userMessage.parts[0].content.value);
        const artifact = { artifactId: "output", name: "output", description: "", metadata: undefined, extensions: [],
          parts: [{ content: { $case: "data", value: output }, metadata: undefined, filename: "", mediaType: "application/json" }] };
        bus.publish(AgentEvent.task({ id: context.taskId, contextId: context.contextId, artifacts: [artifact], history: [context.userMessage], metadata: undefined,
          status: { state: TaskState.TASK_STATE_COMPLETED, message: undefined, timestamp: new Date().toISOString() } }));
        bus.finished();
      },
      async cancelTask() {},
    };
    const card = { name: "peers", description: "", version: "1", capabilities: { streaming: false, pushNotifications: false, extensions: [] }, skills: [], provider: undefined,
      defaultInputModes: [], defaultOutputModes: [], securitySchemes: {}, securityRequirements: [], signatures: [],
      supportedInterfaces: [{ url: "http://127.0.0.1/a2a", protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" }] };
    const app = express();
    app.use("/a2a", jsonRpcHandler({ requestHandler: new DefaultRequestHandler(card, new InMemoryTaskStore(), executor), userBuilder: UserBuilder.noAuthentication }));
    return app;
  },
};

const server = createServer(await listeners[library]());
server.keepAliveTimeout = 60_000; // between the slices of the measurement
server.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${server.address().port}`));
process.stdin.resume().on("end", () => process.exit());
