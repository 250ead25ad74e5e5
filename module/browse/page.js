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
	const plain = (text) => String(Object(text) === text ? JSON.stringify(text) : text ?? "").slice(0, 2000)
		.replace(/\p{Cf}/gu, (c) => joiner(c) ? c : "").replace(/[\p{Cc}\u2028\u2029]+/gu, " ").trim();
	const escape = (c) => joiner(c) ? c : Array.from({ length: c.length }, (_, i) => "\\u" + c.charCodeAt(i).toString(16).padStart(4, "0")).join("");
	const invisible = /[\u007f-\u009f\u2028\u2029]|\p{Cf}/gu;
	// pretty indents JSON; what can't be seen in it is written as an escape.
	function pretty(value) {
		const text = JSON.stringify(value, null, 2).replace(invisible, escape);
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

	// The key / leads to the search.
	document.addEventListener("keydown", (e) => {
		const search = document.querySelector("input[name=q]");
		if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || !search || e.target.closest("input, textarea, select")) return;
		e.preventDefault();
		search.focus();
	});

	const said = document.getElementById("said");
	const say = (text) => { said.textContent = ""; setTimeout(() => { said.textContent = text; }, 50); };

	// page gets a page without its style and script. XMLHttpRequest makes a document without running anything in it.
	let asked;
	function page(url) {
		return new Promise((resolve, reject) => {
			const request = asked = new XMLHttpRequest();
			request.open("GET", url + "&part=1");
			request.responseType = "document";
			request.setRequestHeader("Accept", "text/html");
			request.onload = () => { const made = request.response; made?.getElementById("results") ? resolve(made) : request.onerror(); };
			request.onerror = () => reject(new Trouble("The bridge could not be reached. Your sign-in may have expired: load this page again."));
			request.onabort = () => resolve(null);
			request.send();
		});
	}

	// The filter shows other rows without leaving its field.
	const filter = document.querySelector(".filter"), results = document.getElementById("results");
	if (filter) {
		filter.hidden = false;
		let running, due;
		const show = async () => {
			const query = new URLSearchParams([...new FormData(filter)].filter(([, value]) => value.trim() !== ""));
			const url = "?" + query;
			running?.abort();
			const answer = page(url);
			running = asked;
			let made;
			try {
				made = await answer;
			} catch (e) {
				results.replaceChildren(element("p", { className: "notice" }, e.message));
				return;
			}
			if (!made) return;
			results.replaceChildren(...document.adoptNode(made.getElementById("results")).childNodes);
			const tag = filter.tag.value;
			filter.tag.replaceChildren(...made.querySelectorAll("[name=tag] option"));
			filter.tag.value = tag;
			history.replaceState(null, "", url);
			say(document.getElementById("count")?.firstChild.textContent || "");
		};
		filter.addEventListener("submit", (e) => { e.preventDefault(); clearTimeout(due); show(); });
		filter.addEventListener("input", () => { clearTimeout(due); due = setTimeout(show, 150); });
	}

	// A row gets its content when it is opened the first time.
	results.addEventListener("toggle", async (e) => {
		const row = e.target;
		if (!row.open || !row.matches(".skill") || row.dataset.shown) return;
		row.dataset.shown = "yes";
		const inside = row.querySelector(".inside"), link = inside.firstElementChild;
		inside.replaceChildren(element("p", { className: "quiet" }, "Loading…"));
		try {
			const made = (await page("?skill=" + encodeURIComponent(row.dataset.name))).querySelector(".skill .inside");
			if (!made) throw new Trouble("This skill can’t be shown any more.");
			inside.replaceChildren(...document.adoptNode(made).childNodes);
			enhance(inside);
		} catch (e) {
			if (!(e instanceof Trouble)) throw e;
			delete row.dataset.shown;
			inside.replaceChildren(element("p", { className: "notice" }, e.message), link);
		}
	}, true);

	// copy puts the text before a button on the clipboard, or selects it where the browser does not allow that.
	document.addEventListener("click", async (e) => {
		const button = e.target.closest?.("button.copy:not(.look)");
		if (!button) return;
		const text = button.parentElement.querySelector("pre, code");
		try {
			await navigator.clipboard.writeText(text.textContent);
			button.textContent = "Copied";
			say("Copied");
			setTimeout(() => { button.textContent = "Copy"; }, 2000);
		} catch {
			getSelection().selectAllChildren(text);
			say("Selected: copy it with your keyboard");
		}
	});

	// What a field sends, as JSON; "" is nothing. The bridge checks all of it again.
	const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
	let made = 0;

	// field makes the field of one input from the JSON Schema of an object that has only it, and puts it in the input's place in the list.
	function field(item) {
		const all = JSON.parse(item.dataset.schema || "{}"), [name, stated] = Object.entries(all.properties || {})[0] || [];
		if (name === undefined) return null;
		const schema = stated && typeof stated === "object" ? stated : {}, required = (all.required || []).includes(name);
		const id = `field-${++made}`;
		const given = schema.default !== undefined;
		const choices = Array.isArray(schema.enum) ? schema.enum : "const" in schema ? [schema.const] : schema.type === "boolean" ? [true, false] : null;
		const needed = required && !given;
		let control, read;
		const kind = typeof schema.type === "string" ? schema.type : "JSON";
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
		}
		control.id = id;
		control.required = needed && !(kind === "string" && schema.minLength === 0);
		const hints = [...item.querySelectorAll(".hint")];
		hints.forEach((hint, n) => { hint.id = `${id}-hint${n}`; });
		const wrong = element("p", { className: "wrong", id: `${id}-wrong` });
		control.setAttribute("aria-describedby", [...hints.map((hint) => hint.id), wrong.id].join(" "));
		if (needed) control.setAttribute("aria-required", "true");
		const mark = (text) => { wrong.textContent = text; text ? control.setAttribute("aria-invalid", "true") : control.removeAttribute("aria-invalid"); };
		control.addEventListener("input", () => mark(""));
		control.addEventListener("invalid", (e) => { e.preventDefault(); mark(control.validationMessage); });
		const label = item.querySelector(".label");
		const named = element("label", { htmlFor: id, className: "label" }, ...label.childNodes);
		label.replaceWith(named);
		named.after(control, wrong);
		return { name, control, mark, json: () => { const value = read(); return value === "" ? "" : `${JSON.stringify(name)}:${value}`; } };
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

	// explain says why there is no output, but not what the state of the run says already.
	function explain(fault, code, message, ended) {
		const details = fault.details ?? {}, lines = [plain(message)];
		if (code === "AUTH_REQUIRED") lines.push(missing(details));
		if (Array.isArray(details)) lines.push(...details.slice(0, 20).map((d) => plain(`${plain(d?.path)} ${plain(d?.message)}`)));
		if (!ended || fault.next !== "none") lines.push(next[fault.next]);
		if (!ended) lines.push(executed[fault.executed]);
		const box = element("div", { className: "notice failure" }, element("p", { className: "title" }, ended ? `The provider’s reason${code ? `: ${plain(code)}` : ""}` : titles[code] || "This did not work"));
		box.append(...lines.filter(Boolean).map((l) => element("p", {}, l)));
		if (ended && fault.details !== undefined) box.append(element("p", {}, "Details"), element("pre", { tabIndex: 0 }, pretty(fault.details)));
		return box;
	}

	const folded = (title, value) => element("details", {}, element("summary", {}, title), element("pre", { tabIndex: 0 }, pretty(value)));

	// How base64 of images begins. Other kinds, such as SVG, can contain scripts.
	const kinds = [["iVBORw0KGgo", "image/png"], ["/9j/", "image/jpeg"], ["R0lGOD", "image/gif"], ["UklGR", "image/webp"]];
	const mostImages = 8, mostOfImage = 2e7;

	// images makes the images that an output has as base64, alone or as a data URL.
	function images(value, name, found = [], depth = 0) {
		if (found.length >= mostImages || depth > 4) return found;
		if (typeof value === "string") {
			const text = value.slice(0, 64).startsWith("data:image/") ? value.slice(value.indexOf(",") + 1) : value;
			const kind = text.length <= mostOfImage && kinds.find(([start]) => text.startsWith(start));
			if (kind) {
				try {
					const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
					const picture = element("img", { alt: name ? `Image “${plain(name)}” of the output` : "The output, an image" });
					picture.onload = () => URL.revokeObjectURL(picture.src);
					picture.onerror = () => { picture.onload(); picture.remove(); };
					picture.src = URL.createObjectURL(new Blob([bytes], { type: kind[1] }));
					found.push(picture);
				} catch { /* it is no base64 */ }
			}
		} else if (value && typeof value === "object") {
			for (const [key, member] of Object.entries(value).slice(0, 100)) images(member, Array.isArray(value) ? name : key, found, depth + 1);
		}
		return found;
	}

	// show shows how a run ended.
	function show(result, answer) {
		const done = answer.result;
		if (done?.status === "completed") {
			const pictures = images(done.output, "");
			result.append(element("p", { className: "title" }, "Result"), ...pictures);
			const text = element("pre", { className: "output", tabIndex: 0 }, typeof done.output === "string" && !pictures.length ? done.output.slice(0, longest).replace(/[^\P{C}\n\t]|[\u2028\u2029]/gu, escape) : pretty(done.output));
			result.append(pictures.length ? element("details", {}, element("summary", {}, "As JSON"), text) : text, folded("The whole answer", answer));
			return;
		}
		const fault = done ? done.error || {} : answer.error?.data || {}, code = done ? fault.type : fault.code;
		result.append(explain(fault, code, done ? fault.message : answer.error?.message, done?.status === "failed" && code !== "INVOCATION_TIMEOUT"), folded("The whole answer", answer));
	}

	// The runs of this tab, newest first. Their tokens are of use to the same caller only. A caller with a principal gets those of other tabs and
	// agents, too: the bridge lists runs of calls with a key.
	const runs = document.querySelector(".runs"), listed = "listed" in runs.dataset, mostRuns = 50, kept = "skill-bridge runs " + endpoint;
	let list = [];
	try { list = JSON.parse(sessionStorage.getItem(kept)) || []; } catch { /* it is not allowed */ }
	const key = () => listed ? `,"idempotency_key":"${[...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("")}"` : "";
	async function read() {
		let answer;
		try { answer = await call("list_runs", `{"limit":${mostRuns}}`); } catch (e) { if (!(e instanceof Trouble)) throw e; }
		for (const { skill, run_id: id, run_token: token, status, began } of answer?.result?.runs || []) {
			const own = list.find((run) => id && run.id === id && run.name === skill);
			if (own) Object.assign(own, { status, token: token || own.token }); else list.push({ name: skill, at: Date.parse(began), status, id, token });
		}
		list = list.sort((a, b) => b.at - a.at).slice(0, mostRuns);
		tell();
	}
	const looks = { completed: "good", failed: "bad", running: "busy" };
	function note(run, change) {
		Object.assign(run, change);
		if (!list.includes(run)) list.unshift(run);
		list.length = Math.min(list.length, mostRuns);
		try { sessionStorage.setItem(kept, JSON.stringify(list)); } catch { /* it is full, or not allowed */ }
		tell();
	}
	const items = new WeakMap();
	function item(run) {
		const dot = element("span"), words = element("span", { className: "quiet" }), result = element("div", { className: "result" });
		const button = element("button", { type: "button", className: "copy look", onclick: () => look(run, result) }, "Show");
		const node = element("li", {}, element("div", { className: "state" }, dot,
			element("a", { href: "?skill=" + encodeURIComponent(run.name) }, element("bdi", {}, plain(run.name))), words, button), result);
		return { node, update: () => {
			dot.className = "dot " + (looks[run.status] || "");
			words.textContent = [run.status, run.id, new Date(run.at).toLocaleTimeString()].filter(Boolean).map(plain).join(" · ");
			button.hidden = !run.token;
		} };
	}
	function tell() {
		runs.hidden = !list.length;
		runs.querySelector("summary span").textContent = list.length;
		runs.querySelector("ol").append(...list.map((run) => {
			if (!items.has(run)) items.set(run, item(run));
			items.get(run).update();
			return items.get(run).node;
		}));
		runs.querySelectorAll("li:nth-child(n+51)").forEach((old) => old.remove());
	}
	async function look(run, result) {
		let answer;
		try {
			answer = await call("get_run", JSON.stringify({ run_token: run.token, wait_ms: 0 }));
		} catch (e) {
			if (!(e instanceof Trouble)) throw e;
			answer = { error: { message: e.message } };
		}
		result.replaceChildren();
		if (answer.result) note(run, { status: answer.result.status });
		if (answer.result?.status === "running") result.append(element("p", {}, "The run continues.")); else show(result, answer);
	}

	// The inputs in code, from JSON. Strings and numbers of JSON are literals of all three languages.
	const token = /"(?:[^"\\]|\\.)*"(\s*:)?|true|false|null/g;
	const literals = {
		shell: (json) => json.replace(/\\\\|\\"|['!]/g, (c) => escape(c.at(-1))),
		python: (json) => json.replace(token, (t) => ({ true: "True", false: "False", null: "None" })[t] || t),
		typescript: (json) => json.replace(token, (t, name) => name && t.startsWith('"__proto__"') ? '["__proto__"]:' : t),
	};

	// retype puts what is typed in a form into the code beside it, over the examples of the inputs that are empty.
	function retype(form, fields) {
		form.parentElement.querySelectorAll(".code .panel[data-inputs]").forEach((panel) => {
			const code = panel.querySelector("pre");
			panel.dataset.text ??= code.textContent;
			const given = fields.map((f) => f.json()).filter((member) => member && !jsonFault(`{${member}}`));
			const json = JSON.stringify(Object.assign(Object.create(null), ...[form.parentElement.querySelector("[data-language=shell]").dataset.inputs, ...given.map((member) => `{${member}}`)].map((text) => JSON.parse(text, exact)))).replace(invisible, escape);
			code.textContent = panel.dataset.text.replace(panel.dataset.inputs, () => literals[panel.dataset.language](json));
		});
	}

	// setUp adds to the list of inputs what fills them in and runs the skill.
	function setUp(form) {
		const name = form.dataset.skill;
		const fields = [...form.querySelectorAll("[data-schema]")].map(field).filter(Boolean);
		const run = element("button", { type: "submit", className: "main" }, "Run"), stop = element("button", { type: "button", hidden: true }, "Stop waiting");
		const dot = element("span", { className: "dot", "aria-hidden": "true" }), words = element("span"), clock = element("span", { className: "clock quiet", "aria-hidden": "true" });
		const state = element("div", { className: "state", hidden: true }, dot, element("span", { role: "status" }, words), clock);
		const result = element("div", { className: "result" });
		form.noValidate = true;
		form.setAttribute("aria-label", `Run ${plain(name)}`);
		form.append(element("div", { className: "actions" }, run, stop, state), result);
		form.addEventListener("input", () => retype(form, fields));
		let busy = false; // the button is not disabled, since it would lose the focus

		form.addEventListener("keydown", (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit(); });
		form.addEventListener("submit", (e) => {
			e.preventDefault();
			if (busy) return;
			if (!form.checkValidity()) {
				form.querySelector("[aria-invalid]")?.focus();
				return;
			}
			const args = fields.map((f) => f.json()).filter(Boolean).join(",");
			watch("execute_skill", `{"name":${JSON.stringify(name)},"args":{${args}},"wait_ms":${firstWait}${key()}}`, { name, at: Date.now() });
		});

		// watch runs or follows until there is an end, or the user wants no more.
		async function watch(method, params, which) {
			const abort = new AbortController(), start = performance.now();
			const elapsed = () => { const ms = performance.now() - start; return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`; };
			const status = (look, text) => { dot.className = "dot " + look; words.textContent = text; };
			busy = true;
			run.setAttribute("aria-disabled", "true");
			stop.hidden = state.hidden = false;
			stop.onclick = () => abort.abort();
			result.replaceChildren();
			status("busy", method === "get_run" ? "Asking about the run…" : "Sent…");
			const tick = setInterval(() => { clock.textContent = elapsed(); }, 100);
			try {
				for (;;) {
					const answer = await call(method, params, abort.signal);
					const done = answer.result;
					if (done) note(which, { status: done.status, id: done.run_id, token: done.run_token || which.token });
					if (done?.status !== "running") {
						finish(answer, elapsed(), status, which);
						break;
					}
					status("busy", `Accepted as ${plain(done.run_id)}; running…`);
					if (!which.token) throw new Trouble("The run continues, but this page can’t follow it.");
					[method, params] = ["get_run", `{"run_token":${JSON.stringify(which.token)},"wait_ms":${nextWait}}`];
					await new Promise((r) => { setTimeout(r, Math.min(Math.max(Number(done.retry_after_ms) || 0, 250), 5000)); abort.signal.addEventListener("abort", r); });
				}
			} catch (e) {
				if (!abort.signal.aborted && !(e instanceof Trouble)) throw e;
				status("bad", abort.signal.aborted ? "You stopped waiting." : "No answer.");
				const about = which.token ? "The run continues." : method === "execute_skill" ? executed.maybe : "";
				result.append(element("div", { className: "notice" }, element("p", {}, [abort.signal.aborted ? "" : e.message, about].filter(Boolean).join(" "))));
				offer(which);
			} finally {
				clearInterval(tick);
				clock.textContent = "";
				busy = false;
				run.removeAttribute("aria-disabled");
				if (document.activeElement === stop) run.focus();
				stop.hidden = true;
			}
		}

		// offer makes a button with which to come back to a run.
		function offer(which) {
			if (which.token) result.append(element("button", { type: "button", onclick: () => { run.focus(); watch("get_run", `{"run_token":${JSON.stringify(which.token)},"wait_ms":${nextWait}}`, which); } }, "Follow the run"));
		}

		function finish(answer, took, status, which) {
			const done = answer.result, fault = done ? done.error || {} : answer.error?.data || {};
			if (done?.status === "completed") status("good", `Completed after ${took}.`);
			else status("bad", done ? `The run failed after ${took}.` : "The call failed.");
			show(result, answer);
			if (done?.run_token || fault.run_token) {
				which.token = done?.run_token || fault.run_token;
				offer(which);
			}
			const at = fields.find((f) => f.name === fault.param);
			if (at && fault.next === "fix_params") {
				at.mark(plain(answer.error.message));
				at.control.focus();
			}
		}
	}

	// enhance adds what needs JavaScript.
	function enhance(part) {
		part.querySelectorAll("form.try").forEach(setUp);
		part.querySelectorAll("button.copy").forEach((button) => { button.hidden = false; });
		part.querySelectorAll("time").forEach((time) => { time.textContent = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }); });
	}
	enhance(document);
	tell();
	if (listed) read();
})();
