// What people do on the page, in headless Chromium. Started by e2e_test.go.
import assert from "node:assert/strict";
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { PAGE, CONTROL, CHROMIUM, SCREENSHOTS } = process.env;
const MANY = new URL("/many", PAGE).href; // a page with more skills than it shows
const MINE = new URL("/mine", PAGE).href; // a page for callers with principals
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
mkdirSync(SCREENSHOTS, { recursive: true });

let browser;
before(async () => { browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] }); });
after(() => browser.close());

// visit opens the page and sees to it that nothing happens that must not: no
// request elsewhere, no dialog, no error, no violation of the policy.
async function visit(t, { query = "", at = PAGE, ...options } = {}) {
	const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
	const page = await context.newPage();
	page.setDefaultTimeout(10000);
	const bad = [];
	page.on("request", (r) => { if (new URL(r.url()).origin !== new URL(PAGE).origin) bad.push("request to " + r.url()); });
	page.on("dialog", (d) => { bad.push("dialog: " + d.message()); d.dismiss(); });
	page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") bad.push("console: " + m.text()); });
	page.on("pageerror", (e) => bad.push("error: " + e.message));
	t.after(async () => {
		assert.deepEqual((await context.cookies()), []);
		await context.close();
		assert.deepEqual(bad, []);
	});
	await page.goto(at + query);
	return page;
}

async function accessible(page) {
	await page.evaluate(axe);
	const { violations } = await page.evaluate(() => globalThis.axe.run(document));
	assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" | ")}`), []);
	const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
	assert.equal(wider, 0, "the page scrolls sideways");
}

// clipped returns the names of the menus whose choice, with the arrow beside it, is wider than they are.
const clipped = (menus) => menus.filter((e) => {
	const style = getComputedStyle(e), text = document.createElement("canvas").getContext("2d");
	text.font = style.font;
	return text.measureText(e.selectedOptions[0].text).width + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) + 20 > e.clientWidth;
}).map((e) => e.name);

const shot = (page, name, fullPage = true) => page.screenshot({ path: join(SCREENSHOTS, name + ".png"), fullPage });
const longest = "acme." + "z".repeat(120);
const skill = (page, name) => page.locator(`.skill[data-name="${name}"]`);

// open opens a skill and its form.
async function open(page, name) {
	const s = skill(page, name);
	await s.locator("summary").first().click();
	await s.getByRole("button", { name: "Run" }).waitFor();
	return s;
}

async function fill(s) {
	await s.getByLabel("text").fill("two\nlines");
	await s.getByLabel("code").fill("ABC");
	await s.getByLabel("count").fill("12345678901234567890");
	await s.getByLabel("loud").selectOption("false");
	await s.getByLabel("tags").fill('["a", 1.50]');
}

test("lists the skills of all sources, and what could not be read", async (t) => {
	const page = await visit(t);
	const names = await page.locator("h3.name").allInnerTexts();
	assert.deepEqual(names, ["acme.broken", "acme.everything", "acme.future", "acme.hostile", "acme.locked", "acme.picture", "acme.refuses", "acme.slow", longest, "demo.weather"]);
	assert.match(await skill(page, "acme.broken").locator("summary").innerText(), /invalid/);
	assert.match(await skill(page, "acme.future").locator("summary").innerText(), /incompatible/);
	assert.doesNotMatch(await skill(page, "acme.everything").locator("summary").innerText(), /available|public/);
	const heights = await page.locator(".skill > summary").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().height));
	assert.ok(heights.every((h) => h >= 44 && h < 46), `rows have the heights ${heights}`);
	assert.match(await page.getByRole("region", { name: "Some sources could not be read" }).innerText(), /gone/);
	await skill(page, "acme.broken").locator("summary").click();
	await skill(page, "acme.broken").getByText("/endpoint is required").last().waitFor();
	assert.match(await skill(page, "acme.broken").locator(".notice").innerText(), /^invalid since /);
});

test("names all endpoints at the top, and / leads to the search", async (t) => {
	const page = await visit(t);
	assert.deepEqual(await page.locator("header .endpoint code").allInnerTexts(), [PAGE, new URL("/mcp", PAGE).href]);
	assert.equal(await page.locator("header button.copy:visible").count(), 2);
	await page.keyboard.press("/");
	assert.equal(await page.evaluate(() => document.activeElement.name), "q");
	await page.keyboard.type("a/b");
	assert.equal(await page.locator("[name=q]").inputValue(), "a/b");
});

test("copies calls with what was typed", async (t) => {
	const page = await visit(t, { query: "?skill=acme.everything" });
	await page.getByLabel("text").first().fill("it's \"mine\"!\n\\ ü");
	await page.getByLabel("loud").selectOption("true");
	const code = await page.locator(".code pre").allTextContents();
	const args = JSON.parse(code[0].match(/-d '(.*)'$/s)[1]).params.args;
	assert.equal(args.text, "it's \"mine\"!\n\\ ü");
	assert.equal(args.loud, true);
	assert.ok(!/['!]/.test(code[0].match(/-d '(.*)'$/s)[1]), code[0]);
	assert.match(code[1], /"loud":\s*True/);
	assert.ok(code[1].includes(JSON.stringify(args.text)), code[1]);
	assert.match(code[2], /"loud":\s*true/);
});

test("shows what clients of MCP need", async (t) => {
	const page = await visit(t);
	await page.getByText("Add to your client").click();
	const configurations = (await page.locator(".clients pre").allInnerTexts()).map((text) => JSON.parse(text));
	const url = new URL("/mcp", PAGE).href;
	const [cursor, code, claude, desktop, gemini, windsurf] = configurations.map((c) => (c.mcpServers ?? c.servers).skills);
	assert.deepEqual([cursor.url, code.url, claude.url, gemini.httpUrl, windsurf.serverUrl, configurations.length], [url, url, url, url, url, 6]);
	assert.deepEqual(desktop.args.slice(0, 4), ["skill-bridge", "mcp", "--connect", url]);
	await accessible(page);
	await shot(page, "clients-light-1440", false);
});

test("searches and filters without leaving the field", async (t) => {
	const page = await visit(t);
	const box = page.getByRole("searchbox", { name: "Search" });
	await box.fill("weather");
	await page.getByText("1 of 10 skills").first().waitFor();
	assert.deepEqual(await page.locator(".skill h3").allInnerTexts(), ["demo.weather"]);
	assert.ok(await box.evaluate((e) => e === document.activeElement), "the search box has lost the focus");
	assert.match(page.url(), /\?q=weather$/);
	await open(page, "demo.weather");
	await page.reload();
	assert.equal(await box.inputValue(), "weather");
	assert.deepEqual(await page.locator(".skill h3").allInnerTexts(), ["demo.weather"]);
	await box.fill("");
	await skill(page, "acme.broken").waitFor();
	assert.equal(await page.locator(".skill").count(), 10);
	await page.getByLabel("State").selectOption("needs_credentials");
	await page.getByText("1 of 10 skills").first().waitFor();
	assert.deepEqual(await page.locator(".skill h3").allInnerTexts(), ["acme.locked"]);
	await page.getByLabel("State").selectOption("");
	await page.getByLabel("Tag").selectOption("example");
	await page.getByText("1 of 10 skills").first().waitFor();
	assert.deepEqual(await page.locator(".skill h3").allInnerTexts(), ["acme.everything"]);
	await page.getByLabel("Type").selectOption("task");
	await page.getByText("No skill matches.").waitFor();
	await accessible(page);
});

test("finds one of many skills", async (t) => {
	const page = await visit(t, { at: MANY });
	await page.getByRole("searchbox", { name: "Search" }).fill("big skill 1987");
	await skill(page, "big.skill-1987").waitFor();
	assert.equal(await page.locator(".skill h3").first().innerText(), "big.skill-1987");
	await page.goto(MANY + "?namespace=big");
	assert.deepEqual((await page.locator(".skill h3").allInnerTexts()).slice(9, 12), ["big.skill-9", "big.skill-10", "big.skill-11"]);
	await page.getByRole("link", { name: "Next" }).click();
	await page.getByRole("link", { name: "Previous" }).waitFor();
	assert.equal(await page.locator(".skill h3").first().innerText(), "big.skill-200");
});

test("has what is to be copied", async (t) => {
	const page = await visit(t);
	await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
	const s = await open(page, "acme.everything");
	assert.match(await s.locator(".panel:visible pre").innerText(), /^curl 'http/);
	for (const [label, want] of [["Python", /^import json/], ["TypeScript", /await fetch/], ["Anthropic tool", /"input_schema"/], ["OpenAI tool", /"parameters"/], ["MCP tool", /"inputSchema"/]]) {
		await s.getByText(label, { exact: true }).click();
		assert.equal(await s.locator(".panel:visible").count(), 1);
		assert.match(await s.locator(".panel:visible pre").innerText(), want);
		await s.locator(".panel:visible").getByRole("button", { name: "Copy" }).click();
		await s.locator(".panel:visible").getByRole("button", { name: "Copied" }).waitFor();
		assert.match(await page.evaluate(() => navigator.clipboard.readText()), want);
	}
	await accessible(page);
	await page.locator("header .endpoint").first().getByRole("button", { name: "Copy" }).click();
	await page.locator("header").getByRole("button", { name: "Copied" }).waitFor();
	assert.equal(await page.evaluate(() => navigator.clipboard.readText()), PAGE);
});

test("shows an image as an image, and nothing else", async (t) => {
	const page = await visit(t);
	const s = await open(page, "acme.picture");
	await s.getByRole("button", { name: "Run" }).click();
	await s.getByText("Completed after").waitFor();
	const pictures = s.locator(".result img");
	await page.waitForFunction(() => { const all = [...document.querySelectorAll(".result img")]; return all.length && all.every((e) => e.complete && e.naturalWidth); });
	assert.equal(await pictures.count(), 2, "an SVG or a text is shown as an image");
	assert.deepEqual((await pictures.evaluateAll((all) => Promise.all(all.map(async (e) => { await e.decode(); return [e.naturalWidth, e.alt, e.src.split(":")[0]]; })))).sort(),
		[[1, "Image “png” of the output", "blob"], [1, "Image “url” of the output", "blob"]]);
	await accessible(page);
	await shot(page, "picture-light-1440");
});

test("keeps the runs of the tab", async (t) => {
	await fetch(CONTROL + "/hold");
	const page = await visit(t);
	const s = await open(page, "acme.slow");
	await s.getByRole("button", { name: "Run" }).click();
	await s.getByText(/Accepted as run-\d+; running/).waitFor();
	await page.reload();
	const runs = page.locator(".runs");
	await runs.locator("summary").first().click();
	assert.match(await runs.locator("li").first().innerText(), /acme\.slow[^]*running/);
	await runs.getByRole("button", { name: "Show" }).first().click();
	await runs.getByText("The run continues.").waitFor();
	await fetch(CONTROL + "/release");
	await runs.getByRole("button", { name: "Show" }).first().click();
	await runs.locator("pre.output").first().waitFor();
	assert.match(await runs.locator("li").first().innerText(), /completed/);
	await accessible(page);
});

test("lists the runs of a caller", async (t) => {
	const run = async (user) => {
		const page = await visit(t, { at: MINE, extraHTTPHeaders: { "X-User": user } });
		const s = await open(page, "demo.weather");
		await s.getByRole("button", { name: "Run" }).click();
		await s.getByText(/^Completed after/).waitFor();
	};
	const runs = async (user) => (await visit(t, { at: MINE, extraHTTPHeaders: { "X-User": user } })).locator(".runs");
	await run("ada");
	const list = await runs("ada"); // in another tab
	await list.locator("summary").first().click();
	assert.match(await list.locator("li").first().innerText(), /demo\.weather[^]*completed/);
	assert.equal(await list.locator("li").count(), 1);
	await list.getByRole("button", { name: "Show" }).first().click();
	await list.locator("pre.output").first().waitFor();
	const others = await runs("bob");
	await others.page().waitForLoadState("networkidle");
	assert.ok(await others.isHidden(), "bob sees runs of ada");
});

test("fills a form, runs the skill and shows the output", async (t) => {
	const page = await visit(t);
	const s = await open(page, "acme.everything");
	await fill(s);
	await s.getByRole("button", { name: "Run" }).click();
	await s.getByText("Completed after").waitFor();
	const output = JSON.parse(await s.locator("pre.output").innerText());
	assert.equal(output.inputs, '{"text":"two\\nlines","code":"ABC","count":12345678901234567890,"ratio":0.5,"loud":false,"colour":"green","tags":["a", 1.50]}');
});

test("keeps what can't be right from being sent", async (t) => {
	const page = await visit(t);
	const s = await open(page, "acme.everything");
	const posts = [];
	page.on("request", (r) => { if (r.method() === "POST") posts.push(r.postData()); });
	await s.getByLabel("count").fill("0");
	await s.getByLabel("tags").fill("{}");
	await s.getByRole("button", { name: "Run" }).click();
	assert.equal(await s.getByLabel("count").getAttribute("aria-invalid"), "true");
	assert.match(await s.innerText(), /This must be an array\./);
	assert.ok(await s.getByLabel("text").evaluate((e) => e === document.activeElement), "the first field at fault has no focus");
	assert.deepEqual(posts, []);
	await accessible(page);
	await shot(page, "invalid-light-1440");
});

test("shows at the field what the bridge finds", async (t) => {
	const page = await visit(t);
	const s = await open(page, "acme.everything");
	await fill(s);
	await s.getByLabel("code").fill("abc");
	await s.getByRole("button", { name: "Run" }).click();
	await s.getByText("Correct your input").waitFor();
	assert.match(await s.innerText(), /The skill has not run\./);
	assert.equal(await s.getByLabel("code").getAttribute("aria-invalid"), "true");
	assert.ok(await s.getByLabel("code").evaluate((e) => e === document.activeElement), "the field at fault has no focus");
});

test("tells which skills lack a credential before they are run", async (t) => {
	const page = await visit(t);
	const locked = skill(page, "acme.locked");
	assert.match(await locked.locator("summary").innerText(), /needs credentials/);
	assert.doesNotMatch(await locked.locator("summary").innerText(), /available/);
	await locked.locator("summary").click();
	await locked.locator(".notice").waitFor();
	assert.match(await locked.locator(".notice").innerText(), /^needs credentials since [^]*no credentials are configured for its provider/);
	await page.goto(MANY);
	assert.doesNotMatch(await skill(page, "keyed.opened").locator("summary").innerText(), /credential/);
	assert.match(await skill(page, "keyed.other").locator("summary").innerText(), /needs credentials/);
	await skill(page, "keyed.other").locator("summary").click();
	await skill(page, "keyed.other").getByText("this bridge can’t get a token").waitFor();
	assert.match(await skill(page, "keyed.other").innerText(), /of another type/);
});

test("shows every source, however many skills another has", async (t) => {
	const page = await visit(t, { at: MANY });
	assert.deepEqual(await page.locator(".group h2").allInnerTexts(), ["big", "keyed", "tiny"]);
	assert.equal(await skill(page, "keyed.opened").count() + await skill(page, "tiny.weather").count(), 2);
	assert.deepEqual((await page.locator("nav a").allInnerTexts()).map((text) => text.replace(/\s+/g, " ")), ["All sources 2103", "big 2100", "keyed 2", "tiny 1"]);
	await accessible(page);
	await page.getByRole("link", { name: "All 2100 of big" }).click();
	await page.getByRole("link", { name: "Next" }).waitFor(); // the click does not wait for the page
	assert.deepEqual(await page.locator(".group h2").allInnerTexts(), ["big"]);
	assert.equal(await page.locator(".skill").count(), 200);
	await accessible(page);
});

test("explains AUTH_REQUIRED", async (t) => {
	const page = await visit(t);
	const s = await open(page, "acme.locked");
	await s.getByRole("button", { name: "Run" }).click();
	const notice = s.locator(".failure");
	await notice.waitFor();
	const text = await notice.innerText();
	assert.match(text, /A credential is missing or was refused/);
	assert.match(text, /API key, sent in the header X-Acme-Key/);
	assert.match(text, /Only the operator of this bridge can fix this/);
	assert.match(text, /The skill has not run\./);
});

test("tells a failed run from a failed call", async (t) => {
	const page = await visit(t);
	const s = await open(page, "acme.refuses");
	await s.getByRole("button", { name: "Run" }).click();
	await s.getByText("The run failed after").waitFor();
	const text = await s.locator(".failure").innerText();
	assert.match(text, /The provider’s reason: CSV_ERROR[^]*The third line has no end\./);
	assert.doesNotMatch(text, /still running|is invalid|has not run|may have run/);
	await shot(page, "failed-light-1440");
});

test("follows a long run, and comes back to it", async (t) => {
	await fetch(CONTROL + "/hold");
	const page = await visit(t);
	const methods = [];
	page.on("request", (r) => { if (r.method() === "POST") methods.push(JSON.parse(r.postData()).method); });
	const s = await open(page, "acme.slow");
	const asked = page.waitForRequest((r) => r.method() === "POST" && JSON.parse(r.postData()).method === "get_run");
	await s.getByRole("button", { name: "Run" }).click();
	await s.getByText(/Accepted as run-\d+; running/).waitFor();
	await asked;
	assert.match(await s.locator(".clock").innerText(), /^\d+(\.\d)? m?s$/);
	await shot(page, "running-light-1440");
	await s.getByRole("button", { name: "Stop waiting" }).click();
	await s.getByText("The run continues.").waitFor();
	await s.getByRole("button", { name: "Follow the run" }).click();
	await s.getByText("Asking about the run").waitFor();
	await fetch(CONTROL + "/release");
	await s.getByText("Completed after").waitFor();
	assert.deepEqual(JSON.parse(await s.locator("pre.output").innerText()).skill, "acme/slow");
	assert.deepEqual([...new Set(methods)], ["execute_skill", "get_run"]);
	assert.equal(methods.filter((m) => m === "execute_skill").length, 1, "the skill was run more than once");
});

test("shows what providers write as text", async (t) => {
	const page = await visit(t);
	const s = await open(page, "acme.hostile");
	await s.getByRole("button", { name: "Run" }).click();
	await s.getByText("Completed after").waitFor();
	const output = await s.locator("pre.output").innerText();
	assert.match(output, /<img src=x onerror=alert\(1\)>/);
	assert.match(output, /\\u202egnp\.exe/);
	assert.match(output, /12345678901234567890/);
	assert.equal(await s.locator("img, script, a[href^='javascript']").count(), 0);
	assert.doesNotMatch(await page.locator("main").innerText(), /\u202e/);
	assert.equal(await s.getByLabel("<b>x</b>").count(), 1);
});

test("can be used with the keyboard", async (t) => {
	const page = await visit(t, { query: "" });
	await page.keyboard.press("Tab");
	assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the skills");
	await page.keyboard.press("Enter");
	const on = (selector) => page.evaluate((selector) => document.activeElement.matches(selector), selector);
	const tabTo = async (selector, most = 40) => {
		for (let i = 0; i < most && !(await on(selector)); i++) await page.keyboard.press("Tab");
		assert.ok(await on(selector), `${selector} can’t be reached`);
	};
	await tabTo("[name=q]");
	await page.keyboard.type("takes its time");
	await page.waitForFunction(() => location.search === "?q=takes+its+time");
	assert.ok(await on("[name=q]"), "searching moves the focus");
	await tabTo("[data-name='acme.slow'] summary");
	await page.keyboard.press("Enter");
	await skill(page, "acme.slow").getByRole("button", { name: "Run" }).waitFor();
	assert.ok(await on("[data-name='acme.slow'] > summary"), "opening moves the focus");
	await tabTo("[data-name='acme.slow'] button.main");
	await fetch(CONTROL + "/hold");
	await page.keyboard.press("Enter");
	await skill(page, "acme.slow").getByText("Accepted as").waitFor();
	assert.ok(await on("button.main"), "running moves the focus");
	await page.keyboard.press("Tab");
	assert.equal(await page.evaluate(() => document.activeElement.textContent), "Stop waiting");
	await fetch(CONTROL + "/release");
	await skill(page, "acme.slow").getByText("Completed after").waitFor();
	assert.ok(await on("button.main"), "the focus is lost when its button is hidden");
	await tabTo("[data-name='acme.slow'] .code input", 60);
	await page.keyboard.press("ArrowRight");
	assert.match(await skill(page, "acme.slow").locator(".panel:visible pre").innerText(), /^import json/);
	await page.keyboard.press("Shift+Tab");
	for (let i = 0; i < 40 && !(await on("[data-name='acme.slow'] > summary")); i++) await page.keyboard.press("Shift+Tab");
	await page.keyboard.press("Enter");
	assert.equal(await skill(page, "acme.slow").getAttribute("open"), null);
});

test("can be read without JavaScript", async (t) => {
	const page = await visit(t, { javaScriptEnabled: false });
	assert.match(await page.locator("main").innerText(), /need JavaScript/);
	await skill(page, "acme.everything").locator("summary").click();
	await skill(page, "acme.everything").getByRole("link", { name: "Open acme.everything" }).click();
	const s = skill(page, "acme.everything");
	const text = await s.innerText();
	for (const part of ["Any text, also of several lines.", "required", "default 0.5", '"red"', "What was sent.", "application/json", "Acme Corporation", "documentation at docs.example.com"]) {
		assert.ok(text.includes(part), `${part} is not in ${text}`);
	}
	assert.equal(await page.getByRole("button").count(), 0);
	assert.equal(await page.getByRole("searchbox").count(), 0);
	assert.deepEqual(await page.locator("h3.name").allInnerTexts(), ["acme.everything"]);
	assert.deepEqual(await s.locator(".panel:visible").count(), 1);
	await shot(page, "without-javascript");
});

for (const colorScheme of ["light", "dark"]) {
	for (const width of [390, 1280]) {
		test(`is accessible and fits: ${colorScheme}, ${width} px`, async (t) => {
			const page = await visit(t, { colorScheme, viewport: { width, height: 900 } });
			const name = (what) => `${what}-${colorScheme}-${width}`;
			await accessible(page);
			assert.deepEqual(await page.locator(".filter select").evaluateAll(clipped), [], "names of filters are cut");
			await shot(page, name("list"));
			for (const e of await page.locator("details.skill").all()) await e.evaluate((d) => { d.open = true; });
			await page.getByText("Loading…").first().waitFor({ state: "hidden" });
			await page.waitForFunction(() => ![...document.querySelectorAll(".inside")].some((e) => e.textContent === "Loading…"));
			await accessible(page);
			await page.reload();
			const s = await open(page, "acme.everything");
			await fill(s);
			await s.getByRole("button", { name: "Run" }).click();
			await s.getByText("Completed after").waitFor();
			await accessible(page);
			await shot(page, name("result"));
			const locked = await open(page, "acme.locked");
			await locked.getByRole("button", { name: "Run" }).click();
			await locked.locator(".failure").waitFor();
			await accessible(page);
			await page.goto(PAGE + "?skill=acme.locked");
			const one = skill(page, "acme.locked");
			await one.getByRole("button", { name: "Run" }).click();
			await one.locator(".failure").waitFor();
			await accessible(page);
			await shot(page, name("auth"));
			await page.goto(MANY);
			await shot(page, name("many"), false);
			await page.getByText("All 2100 of big").scrollIntoViewIfNeeded();
			await shot(page, name("many-end"), false);
		});
	}
}
