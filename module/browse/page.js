"use strict";
(() => {
	const endpoint = location.origin + location.pathname;
	const firstWait = 1000, nextWait = 10000; // milliseconds, for wait_ms
	const longest = 200000; // characters of an output that are shown

	// element makes an element. Texts become text nodes, never HTML.
	function element(name, properties, ...children) {
		const e = document.createElement(name);
		for (const [key, value] of Object.entries(properties || {})) {
			if (key in e) e[key] = value; else e.setAttribute(key, value);
		}
		e.append(...children.filter((c) => c != null && c !== ""));
		return e;
	}

	const joiner = (c) => c === "\u200c" || c === "\u200d";
	// plain makes one bounded line of what somebody else wrote.
	const plain = (text) => String(text ?? "").slice(0, 2000)
		.replace(/\p{Cf}/gu, (c) => joiner(c) ? c : "").replace(/[\p{Cc}\u2028\u2029]+/gu, " ").trim();
	const escape = (c) => joiner(c) ? c : Array.from({ length: c.length }, (_, i) => "\\u" + c.charCodeAt(i).toString(16).padStart(4, "0")).join("");
	// pretty indents JSON; what can't be seen in it is written as an escape.
	function pretty(value) {
		const text = JSON.stringify(value, null, 2).replace(/[\u007f-\u009f\u2028\u2029]|\p{Cf}/gu, escape);
		return text.length <= longest ? text : text.slice(0, longest) + "\n… " + (text.length - longest) + " more characters";
	}
	// exact keeps numbers as they are written, where the browser can.
	const exact = (_, value, context) =>
		typeof value === "number" && JSON.rawJSON && context && String(value) !== context.source ? JSON.rawJSON(context.source) : value;

	class Trouble extends Error {}

	// call sends one JSON-RPC request; params is JSON.
	async function call(method, params, signal) {
		let response, text;
		try {
			response = await fetch(endpoint, {
				method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" },
				body: `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`,
				cache: "no-store", redirect: "error", signal,
			});
			text = await response.text();
		} catch (e) {
			if (signal?.aborted) throw e;
			throw new Trouble("The bridge could not be reached. Your sign-in may have expired: load this page again.");
		}
		try {
			return JSON.parse(text, exact);
		} catch {
			throw new Trouble(`The bridge, or a proxy in front of it, answered with HTTP status ${response.status} and no JSON.`);
		}
	}

	// Search.
	const search = document.querySelector(".search");
	if (search) {
		search.hidden = false;
		const skills = [...document.querySelectorAll(".skill")].map((e) => [e, (e.querySelector(".line") || e).textContent.toLowerCase() + " " + (e.querySelector(".about")?.textContent.toLowerCase() || "")]);
		search.addEventListener("submit", (e) => e.preventDefault());
		search.elements.search.addEventListener("input", () => {
			const words = search.elements.search.value.toLowerCase().split(/\s+/).filter(Boolean);
			let found = 0;
			for (const [e, text] of skills) {
				e.hidden = !words.every((w) => text.includes(w));
				if (!e.hidden) found++;
			}
			for (const group of document.querySelectorAll(".group")) group.hidden = words.length > 0 && !group.querySelector(".skill:not([hidden])");
			document.getElementById("found").textContent = words.length ? `${found} found` : "";
		});
	}

	// What a field sends, as JSON; "" is nothing. The bridge checks all of it again.
	const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
	let made = 0;

	// field makes the field of one input from its JSON Schema.
	function field(name, schema, required) {
		const id = `field-${++made}`;
		const given = schema.default !== undefined;
		const choices = Array.isArray(schema.enum) ? schema.enum : "const" in schema ? [schema.const] : schema.type === "boolean" ? [true, false] : null;
		const needed = required && !given;
		let control, read, kind = typeof schema.type === "string" ? schema.type : "JSON";
		if (choices) {
			control = element("select", {}, element("option", { value: "" }, needed ? "Choose" : "Not given"));
			choices.slice(0, 500).forEach((c) => {
				const json = JSON.stringify(c);
				control.append(element("option", { value: json, selected: given && json === JSON.stringify(schema.default) }, typeof c === "string" ? plain(c) : json));
			});
			read = () => control.value;
		} else if (kind === "integer" || kind === "number") {
			control = element("input", { type: "number", step: kind === "integer" ? "1" : "any", value: given ? JSON.stringify(schema.default) : "" });
			if (typeof schema.minimum === "number") control.min = schema.minimum;
			if (typeof schema.maximum === "number") control.max = schema.maximum;
			read = () => control.value === "" || number.test(control.value) ? control.value : String(Number(control.value));
		} else if (kind === "string") {
			const long = schema.format === undefined && !(schema.maxLength <= 100);
			control = element(long ? "textarea" : "input", { value: typeof schema.default === "string" ? schema.default : "" });
			if (schema.format === "date") control.type = "date";
			if (schema.minLength > 0 && schema.minLength < 1e9) control.minLength = schema.minLength;
			read = () => control.value === "" && !(needed && schema.minLength === 0) ? "" : JSON.stringify(control.value);
		} else {
			control = element("textarea", { className: "mono", spellcheck: false, placeholder: kind === "array" ? "[]" : kind === "object" ? "{}" : "JSON", value: given ? pretty(schema.default) : "" });
			read = () => control.value.trim();
			const wanted = kind;
			control.addEventListener("input", () => control.setCustomValidity(jsonFault(control.value, wanted)));
			if (kind !== "JSON") kind += ", as JSON";
		}
		control.id = id;
		control.required = needed && !(kind === "string" && schema.minLength === 0);
		control.setAttribute("aria-describedby", `${id}-hint ${id}-wrong`);
		if (needed) control.setAttribute("aria-required", "true");
		const wrong = element("p", { className: "wrong", id: `${id}-wrong` });
		const mark = (text) => { wrong.textContent = text; text ? control.setAttribute("aria-invalid", "true") : control.removeAttribute("aria-invalid"); };
		control.addEventListener("input", () => mark(""));
		control.addEventListener("invalid", (e) => { e.preventDefault(); mark(control.validationMessage); });
		return {
			name, control, mark,
			json: () => { const value = read(); return value === "" ? "" : `${JSON.stringify(name)}:${value}`; },
			block: element("div", {},
				element("label", { htmlFor: id }, element("bdi", { className: "name" }, plain(name)), " ", element("span", { className: "quiet" }, kind + (needed ? ", required" : ""))),
				control,
				element("p", { className: "hint", id: `${id}-hint` }, plain(schema.description)), wrong),
		};
	}

	function jsonFault(text, kind) {
		if (text.trim() === "") return "";
		let value;
		try { value = JSON.parse(text); } catch { return "This is not valid JSON."; }
		const is = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
		return (kind === "array" || kind === "object") && is !== kind ? `This must be an ${kind}.` : "";
	}

	// What a failure means, in words.
	const titles = {
		AUTH_REQUIRED: "A credential is missing or was refused", PERMISSION_DENIED: "The credential does not have the necessary rights",
		SKILL_NOT_FOUND: "There is no such skill", INVOCATION_TIMEOUT: "The deadline passed",
		ENDPOINT_UNREACHABLE: "The provider can’t be reached", VERSION_INCOMPATIBLE: "The skill needs a newer protocol",
		VALIDATION_ERROR: "The input or a document is invalid", INVALID_PROVIDER_RESPONSE: "The provider’s answer can’t be used", RATE_LIMITED: "Too many requests",
	};
	const next = {
		retry: "Your input is correct: try again in a moment.",
		fix_params: "Correct your input and run the skill again.",
		authenticate: "Authenticate to this bridge as its operator told you, then load this page again.",
		ask_operator: "Only the operator of this bridge can fix this: tell them what is missing.",
		follow_run: "The run exists. Do not start another; follow it.",
		other_skill: "This skill can’t be used until its provider corrects it.",
		none: "No remedy is known.",
	};
	const executed = { no: "The skill has not run.", maybe: "The skill may have run: find out before you run it again.", yes: "The skill has run, or is still running." };

	// missing says which credential a provider wants.
	function missing(details) {
		const who = details.required_by === "provider" ? "The provider" : "This bridge";
		switch (details.required_auth_type) {
		case "api_key": return `${who} wants an API key, sent in the header ${plain(details.header) || "X-API-Key"}.`;
		case "oauth2": return `${who} wants an OAuth 2.0 access token${details.scopes && Object.keys(details.scopes).length ? ` with the scopes ${plain(Object.keys(details.scopes).join(", "))}` : ""}.`;
		case "custom": return `${who} wants a credential of the provider’s own kind.` + (details.instructions ? ` The provider’s instructions: “${plain(details.instructions)}”` : "");
		}
		return details.reason ? `The reason: ${plain(details.reason)}.` : "";
	}

	function explain(fault, code, message) {
		const details = fault.details && typeof fault.details === "object" ? fault.details : {};
		const lines = [plain(message)];
		if (code === "AUTH_REQUIRED") lines.push(missing(details));
		if (Array.isArray(details)) lines.push(...details.slice(0, 20).map((d) => plain(`${d?.path ?? ""} ${d?.message ?? ""}`)));
		lines.push(next[fault.next], executed[fault.executed]);
		const box = element("div", { className: "notice failure" }, element("h4", {}, titles[code] || "This did not work"));
		box.append(...lines.filter(Boolean).map((l) => element("p", {}, l)));
		return box;
	}

	const folded = (title, value) => element("details", {}, element("summary", {}, title), element("pre", { tabIndex: 0 }, pretty(value)));

	// setUp makes the form of a skill, and what runs it.
	async function setUp(panel, name, button) {
		button.disabled = true;
		let answer;
		try {
			answer = await call("describe_skill", JSON.stringify({ name, detail: "summary" }));
		} catch (e) {
			if (!(e instanceof Trouble)) throw e;
			answer = { error: { message: e.message } };
		}
		if (answer.error) {
			button.disabled = false;
			panel.replaceChildren(button, explain(answer.error.data || {}, answer.error.data?.code, answer.error.message));
			return;
		}
		const inputs = answer.result.skill.manifest.inputs;
		const required = inputs.required || [];
		const fields = Object.entries(inputs.properties).map(([n, schema]) => field(n, schema && typeof schema === "object" ? schema : {}, required.includes(n)));
		const run = element("button", { type: "submit", className: "main" }, "Run"), stop = element("button", { type: "button", hidden: true }, "Stop waiting");
		const dot = element("span", { className: "dot", "aria-hidden": "true" }), words = element("span"), clock = element("span", { className: "clock quiet", "aria-hidden": "true" });
		const state = element("div", { className: "state", hidden: true }, dot, element("span", { role: "status" }, words), clock);
		const result = element("div", { className: "result" });
		const form = element("form", { noValidate: true, "aria-label": `Try ${plain(name)}` }, ...fields.map((f) => f.block), element("div", { className: "actions" }, run, stop));
		panel.replaceChildren(element("h4", {}, "Try it"), fields.length ? "" : element("p", {}, "The skill has no inputs."), form, state, result);
		(fields[0]?.control || run).focus();

		form.addEventListener("keydown", (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit(); });
		form.addEventListener("submit", (e) => {
			e.preventDefault();
			if (run.disabled) return;
			if (!form.checkValidity()) {
				form.querySelector("[aria-invalid]")?.focus();
				return;
			}
			const args = fields.map((f) => f.json()).filter(Boolean).join(",");
			watch("execute_skill", `{"name":${JSON.stringify(name)},"args":{${args}},"wait_ms":${firstWait}}`);
		});

		// watch runs or follows until there is an end, or the user wants no more.
		async function watch(method, params) {
			const abort = new AbortController(), start = performance.now();
			const elapsed = () => { const ms = performance.now() - start; return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`; };
			const say = (look, text) => { dot.className = "dot " + look; words.textContent = text; };
			let token = "";
			run.disabled = true; stop.hidden = state.hidden = false;
			stop.onclick = () => abort.abort();
			result.replaceChildren();
			say("busy", method === "get_run" ? "Asking about the run…" : "Sent…");
			const tick = setInterval(() => { clock.textContent = elapsed(); }, 100);
			try {
				for (;;) {
					const answer = await call(method, params, abort.signal);
					const done = answer.result;
					if (done?.status !== "running") {
						finish(answer, elapsed(), say);
						break;
					}
					token = done.run_token || token;
					say("busy", `Accepted as ${plain(done.run_id)}; running…`);
					if (!token) throw new Trouble("The run continues, but this page can’t follow it.");
					[method, params] = ["get_run", `{"run_token":${JSON.stringify(token)},"wait_ms":${nextWait}}`];
					await new Promise((r) => { setTimeout(r, Math.min(Math.max(Number(done.retry_after_ms) || 0, 250), 5000)); abort.signal.addEventListener("abort", r); });
				}
			} catch (e) {
				if (!abort.signal.aborted && !(e instanceof Trouble)) throw e;
				say("bad", abort.signal.aborted ? "You stopped waiting." : "No answer.");
				const about = token ? "The run continues." : method === "execute_skill" ? executed.maybe : "";
				result.append(element("div", { className: "notice" }, element("p", {}, [abort.signal.aborted ? "" : e.message, about].filter(Boolean).join(" "))));
				offer(token);
			} finally {
				clearInterval(tick);
				clock.textContent = "";
				run.disabled = false; stop.hidden = true;
			}
		}

		// offer makes a button with which to come back to a run.
		function offer(token) {
			if (token) result.append(element("button", { type: "button", onclick: () => watch("get_run", `{"run_token":${JSON.stringify(token)},"wait_ms":${nextWait}}`) }, "Follow the run"));
		}

		function finish(answer, took, say) {
			const done = answer.result;
			if (done?.status === "completed") {
				say("good", `Completed after ${took}.`);
				result.append(element("h4", {}, "Output"), element("pre", { className: "output", tabIndex: 0 }, pretty(done.output)), folded("The whole answer", answer));
				return;
			}
			const fault = done ? done.error || {} : answer.error?.data || {};
			const code = done ? fault.type : fault.code;
			say("bad", `${done ? `The run failed after ${took}` : "The call failed"}: ${titles[code] || plain(code) || "no reason is known"}.`);
			result.append(explain(fault, code, done ? fault.message : answer.error?.message));
			offer(done?.run_token || fault.run_token);
			result.append(folded("The whole answer", answer));
			const at = fields.find((f) => f.name === fault.param);
			if (at && fault.next === "fix_params") {
				at.mark(plain(answer.error.message));
				at.control.focus();
			}
		}
	}

	for (const panel of document.querySelectorAll(".try")) {
		const button = panel.querySelector("button"), name = panel.closest(".skill").dataset.name;
		panel.hidden = false;
		button.addEventListener("click", () => setUp(panel, name, button));
	}
})();
