// A client with the official SDK (npm install @a2a-js/sdk@1.3), for the quickstart.
import { randomUUID } from "node:crypto";
import { ClientFactory } from "@a2a-js/sdk/client";
import { SendMessageRequest, taskStateToJSON } from "@a2a-js/sdk";

const agent = await new ClientFactory().createFromUrl("http://localhost:8080");
const text = "Bridges carry roads over rivers. A bridge of stone lasts for centuries. Boats pass below.";
const request = SendMessageRequest.fromJSON({ message: {
  messageId: randomUUID(), role: "ROLE_USER",
  parts: [{ data: { skill: "demo.summarize", input: { text, sentences: 1 } } }],
} });
for await (const { payload } of agent.sendMessageStream(request)) {
  if (payload.$case === "statusUpdate") console.log(taskStateToJSON(payload.value.status.state));
  if (payload.$case === "artifactUpdate") console.log(payload.value.artifact.parts[0].content.value);
}
