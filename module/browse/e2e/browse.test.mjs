// What people do on the page, in headless Chromium. Started by e2e_test.go.
import assert from "node:assert/strict";
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { PAGE, CONTROL, CHROMIUM, SCREENSHOTS } = process.env;
const MANY = new URL("/many", PAGE).href; // a page with more skills than it shows
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

const shot = (page, name, fullPage = true) => page.screenshot({ path: join(SCREENSHOTS, name + ".png"), fullPage });
const longest = "acme." + "z".repeat(120);
const skill = (page, name) => page.locator(`.skill[data-name="${name}"]`);

// open opens a skill and its form.
async function open(page, name) {
	const s = skill(page, name);
	await s.locator("summary").first().click();
	await s.getByRole("button", { name: "Try it" }).click();
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
	assert.deepEqual(names, ["acme.broken", "acme.everything", "acme.future", "acme.hostile", "acme.locked", "acme.refuses", "acme.slow", longest, "demo.weather"]);
	assert.match(await skill(page, "acme.broken").locator("summary").innerText(), /faulty/);
	assert.match(await skill(page, "acme.future").locator("summary").innerText(), /incompatible/);
	assert.match(await skill(page, "acme.everything").locator("summary").innerText(), /available/);
	assert.match(await page.getByRole("region", { name: "Some sources could not be read" }).innerText(), /gone/);
	await skill(page, "acme.broken").locator("summary").click();
	assert.match(await skill(page, "acme.broken").innerText(), /\/endpoint is required/);
});

test("shows what clients of MCP need", async (t) => {
	const page = await visit(t);
	await page.getByText("Add to your client").click();
	const configurations = (await page.locator(".clients pre").allInnerTexts()).map((text) => JSON.parse(text));
	const url = new URL("/mcp", PAGE).href;
	assert.equal(configurations.length, 3);
	assert.deepEqual(configurations[0].mcpServers.skills.args, ["skill-bridge", "mcp", "--connect", url]);
	assert.equal(configurations[1].servers.skills.url, url);
	assert.equal(configurations[2].mcpServers.skills.url, url);
	await accessible(page);
	await shot(page, "clients-light-1440", false);
});

test("searches", async (t) => {
	const page = await visit(t);
	await page.getByRole("searchbox", { name: "Search" }).fill("tomorrow weather");
	assert.deepEqual(await page.locator(".skill:visible h3").allInnerTexts(), ["demo.weather"]);
	assert.deepEqual(await page.locator(".group:visible h2").allInnerTexts(), ["demo"]);
	assert.equal(await page.getByText("1 found").count(), 1);
	await page.getByRole("searchbox", { name: "Search" }).fill("");
	assert.equal(await page.locator(".skill:visible").count(), 9);
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
	assert.match(await locked.locator(".notice").innerText(), /needs credentials that the bridge does not have[^]*no credentials are configured for its provider/);
	await page.goto(MANY);
	assert.match(await skill(page, "keyed.opened").locator("summary").innerText(), /uses a credential\s+available/);
	assert.match(await skill(page, "keyed.other").locator("summary").innerText(), /needs credentials/);
	await skill(page, "keyed.other").locator("summary").click();
	assert.match(await skill(page, "keyed.other").innerText(), /of another type[^]*this bridge can’t get a token/);
});

test("shows every source, however many skills another has", async (t) => {
	const page = await visit(t, { at: MANY });
	assert.deepEqual(await page.locator(".group h2").allInnerTexts(), ["big", "keyed", "tiny"]);
	assert.equal(await skill(page, "keyed.opened").count() + await skill(page, "tiny.weather").count(), 2);
	assert.deepEqual((await page.locator("nav a").allInnerTexts()).map((text) => text.replace(/\s+/g, " ")), ["big 2100", "keyed 2", "tiny 1"]);
	const big = page.getByRole("region", { name: "big" });
	assert.deepEqual(await page.getByText("not shown here").allInnerTexts(), ["And 103 more not shown here. Show only big"]);
	await accessible(page);
	const search = page.getByRole("searchbox", { name: "Search" });
	await search.fill("weather");
	assert.deepEqual(await page.locator(".group:visible h2").allInnerTexts(), ["tiny"]);
	await search.fill("");
	assert.equal(await page.locator(".group:visible").count(), 3);
	await big.getByRole("link", { name: "Show only big" }).click();
	await page.getByText("2100 skills of big").waitFor();
	assert.equal(await page.getByText("And 100 more, see list_skills.").count(), 1);
});

test("says which source there is not", async (t) => {
	const context = await browser.newContext();
	t.after(() => context.close());
	const page = await context.newPage();
	assert.equal((await page.goto(PAGE + "?namespace=nope")).status(), 404);
	assert.match(await page.locator("main").innerText(), /There is no source “nope” here/);
	await accessible(page);
	await shot(page, "no-source");
	await page.getByRole("link", { name: "Show all skills" }).click();
	await page.getByRole("heading", { name: "acme", exact: true }).waitFor();
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
	assert.match(await s.locator(".failure").innerText(), /The third line has no end\.[^]*The skill has run/);
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
	assert.deepEqual([...new Set(methods)], ["describe_skill", "execute_skill", "get_run"]);
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
	for (let i = 0; i < 20 && !(await page.evaluate(() => document.activeElement.closest?.("[data-name='acme.slow']"))); i++) await page.keyboard.press("Tab");
	await page.keyboard.press("Enter");
	await page.keyboard.press("Tab");
	assert.equal(await page.evaluate(() => document.activeElement.textContent), "Try it");
	await fetch(CONTROL + "/release");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => document.activeElement.textContent === "Run");
	await page.keyboard.press("Enter");
	await skill(page, "acme.slow").getByText("Completed after").waitFor();
});

test("can be read without JavaScript", async (t) => {
	const page = await visit(t, { javaScriptEnabled: false });
	const s = skill(page, "acme.everything");
	await s.locator("summary").click();
	const text = await s.innerText();
	for (const part of ["Any text, also of several lines.", "required", "default 0.5", '"red"', "What was sent.", "application/json", "Acme Corporation", "documentation at docs.example.com"]) {
		assert.ok(text.includes(part), `${part} is not in ${text}`);
	}
	assert.equal(await page.getByRole("button", { name: "Try it" }).count(), 0);
	assert.equal(await page.getByRole("searchbox").count(), 0);
	assert.match(await page.locator("main").innerText(), /need JavaScript/);
	await s.getByRole("link", { name: "Link to this skill" }).click();
	assert.deepEqual(await page.locator("h3.name").allInnerTexts(), ["acme.everything"]);
	await shot(page, "without-javascript");
});

for (const colorScheme of ["light", "dark"]) {
	for (const width of [390, 1440]) {
		test(`is accessible and fits: ${colorScheme}, ${width} px`, async (t) => {
			const page = await visit(t, { colorScheme, viewport: { width, height: 900 } });
			const name = (what) => `${what}-${colorScheme}-${width}`;
			await accessible(page);
			await shot(page, name("list"));
			for (const e of await page.locator("details.skill").all()) await e.evaluate((d) => { d.open = true; });
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
			await one.getByRole("button", { name: "Try it" }).click();
			await one.getByRole("button", { name: "Run" }).click();
			await one.locator(".failure").waitFor();
			await accessible(page);
			await shot(page, name("auth"));
			await page.goto(MANY);
			await shot(page, name("many"), false);
			await page.getByText("not shown here").scrollIntoViewIfNeeded();
			await shot(page, name("many-end"), false);
		});
	}
}
