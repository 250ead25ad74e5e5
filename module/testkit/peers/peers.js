// peers.js is a script of nginx (njs) that does for one skill what the bridge does, for comparison.

async function call(r) {
	let request;
	try {
		request = JSON.parse(r.requestText);
	} catch (e) {
		return answer(r, { id: null, error: { code: -32700, message: "Parse error" } });
	}
	if (request.jsonrpc !== "2.0" || request.method !== "execute_skill") {
		return answer(r, { id: request.id, error: { code: -32601, message: "Method not found" } });
	}
	const reply = await r.subrequest("/provider", { method: "POST", body: JSON.stringify({ inputs: request.params.args }) });
	if (reply.status !== 200) {
		return answer(r, { id: request.id, error: { code: -32052, message: `HTTP ${reply.status}` } });
	}
	const run = JSON.parse(reply.responseText);
	answer(r, { id: request.id, result: { status: run.status, output: run.output } });
}

function answer(r, members) {
	r.headersOut["Content-Type"] = "application/json";
	r.return(200, JSON.stringify(Object.assign({ jsonrpc: "2.0" }, members)));
}

export default { call };
