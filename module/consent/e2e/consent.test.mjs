// What users do on the pages, in headless Chromium. Started by browser_test.go.
import assert from "node:assert/strict";
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { BRIDGE, LOGIN, CHROMIUM, SCREENSHOTS } = process.env;
const PAGE = BRIDGE + "/connect/acme";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
mkdirSync(SCREENSHOTS, { recursive: true });

let browser;
before(async () => { browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] }); });
after(() => browser.close());

// visit opens a page as a user, and sees to it that nothing happens that must not.
async function visit(t, user, at = PAGE, options = {}) {
	const { sameSite = "Lax", ...others } = options;
	const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...others });
	await context.addCookies([{ name: "user", value: user, url: BRIDGE, sameSite }]); // of the login of the bridge
	const page = await context.newPage();
	page.setDefaultTimeout(10000);
	const bad = [];
	page.on("request", (r) => { if (![BRIDGE, LOGIN].includes(new URL(r.url()).origin)) bad.push("request to " + r.url()); });
	page.on("console", (m) => { if (m.type() === "error" && !/status of 4\d\d/.test(m.text())) bad.push("console: " + m.text()); });
	page.on("pageerror", (e) => bad.push("error: " + e.message));
	t.after(async () => { await context.close(); assert.deepEqual(bad, []); });
	await page.goto(at);
	return page;
}

// accessible checks the page with a script, which its policy lets nobody but a tester load.
async function accessible(page) {
	await page.evaluate(axe);
	const { violations } = await page.evaluate(() => globalThis.axe.run(document));
	assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" | ")}`), []);
	assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "the page scrolls sideways");
}

const shot = (page, name) => page.screenshot({ path: join(SCREENSHOTS, name + ".png"), fullPage: true });
const flows = async (page) => (await page.context().cookies()).filter((c) => c.name.startsWith("skill_bridge_flow_"));

async function signIn(page) {
	await page.waitForURL(LOGIN + "/**");
	await page.getByLabel("User").fill("test-user2");
	await page.getByLabel("Password").fill("verysecure");
	await page.getByRole("button", { name: "Allow" }).click();
}

test("connects an account, uses it and disconnects it", async (t) => {
	const page = await visit(t, "ada", PAGE + "?scopes=openid+custom_scope+offline_access+admin");
	assert.match(await page.locator("main").innerText(), /not connected[\s\S]*Acme Tables[\s\S]*Book tables in your name/);
	assert.doesNotMatch(await page.locator("main").innerText(), /admin/);
	await accessible(page);
	await shot(page, "connect");
	await page.setViewportSize({ width: 768, height: 400 });
	await page.screenshot({ path: join(SCREENSHOTS, "page.png") }); // of the README
	await page.getByRole("button", { name: "Connect your account at acme" }).click();
	const [cookie] = await flows(page);
	assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Lax", "/"]);
	await signIn(page);
	await page.waitForURL(PAGE);
	assert.match(await page.locator("main").innerText(), /connected[\s\S]*Connected since/);
	assert.deepEqual(await flows(page), []);
	await accessible(page);
	await shot(page, "connected");
	const answer = await page.request.post(BRIDGE + "/rpc", { data: { jsonrpc: "2.0", id: 1, method: "execute_skill", params: { name: "acme.book" } } });
	assert.equal((await answer.json()).result.status, "completed");
	await page.getByRole("button", { name: "Disconnect your account at acme" }).click();
	await page.getByText("not connected").waitFor();
	const refused = await page.request.post(BRIDGE + "/rpc", { data: { jsonrpc: "2.0", id: 1, method: "execute_skill", params: { name: "acme.book" } } });
	assert.equal((await refused.json()).error.data.next, "connect");
});

test("works with the keyboard, and without JavaScript", async (t) => {
	const page = await visit(t, "kay", PAGE, { javaScriptEnabled: false });
	const focused = async (name) => {
		for (let i = 0; i < 10; i++) {
			await page.keyboard.press("Tab");
			if (await page.locator(":focus").textContent() === name) return;
		}
		assert.fail(name + " can't be reached");
	};
	await page.keyboard.press("Tab");
	assert.equal(await page.locator(":focus").innerText(), "Skip to the accounts");
	await focused("Connect your account at acme");
	await page.keyboard.press("Enter");
	await signIn(page);
	await page.waitForURL(PAGE);
	await focused("Disconnect your account at acme");
	await page.keyboard.press("Enter");
	await page.getByText("not connected").waitFor();
});

test("fits a phone, and the dark", async (t) => {
	for (const scheme of ["light", "dark"]) {
		const page = await visit(t, "pia", BRIDGE + "/connect", { viewport: { width: 390, height: 844 }, colorScheme: scheme });
		await accessible(page);
		await shot(page, "phone-" + scheme);
		for (const button of await page.getByRole("button").all()) assert.ok((await button.boundingBox()).height >= 44);
	}
});

test("says that a user did not consent, and leads back", async (t) => {
	const page = await visit(t, "nora");
	await page.getByRole("button", { name: /^Connect/ }).click();
	await page.waitForURL(LOGIN + "/**");
	const [cookie] = await flows(page);
	assert.ok(cookie);
	await page.goto(PAGE + "/callback?error=access_denied&state=wrong");
	assert.match(await page.locator("main").innerText(), /not for what this browser has begun last/);
	await accessible(page);
	await shot(page, "failed");
	await page.getByRole("link", { name: "Back to the account" }).click();
	await page.waitForURL(PAGE);
});

test("is refused for a stranger", async (t) => {
	const context = await browser.newContext();
	t.after(() => context.close());
	const page = await context.newPage();
	assert.equal((await page.goto(PAGE)).status(), 403);
	await accessible(page);
	assert.doesNotMatch(await page.locator("body").innerText(), /Acme Tables/);
});

test("a login whose cookie is SameSite=Strict goes on with one click", async (t) => {
	const page = await visit(t, "sam", PAGE, { sameSite: "Strict" });
	await page.getByRole("button", { name: /^Connect/ }).click();
	await signIn(page);
	await page.getByRole("link", { name: "Continue" }).waitFor();
	await accessible(page);
	await shot(page, "continue");
	await page.getByRole("link", { name: "Continue" }).click();
	await page.waitForURL(PAGE);
	assert.match(await page.locator("main").innerText(), /Connected since/);
});

test("another site can neither post its form nor frame it", async (t) => {
	const page = await visit(t, "vic");
	const evil = LOGIN + "/login/username"; // another origin
	await page.goto(evil);
	await page.evaluate((at) => {
		const form = document.createElement("form");
		form.method = "post"; form.action = at;
		form.innerHTML = "<input name=do value=connect>";
		document.body.append(form);
		form.submit();
	}, PAGE);
	await page.waitForURL(PAGE);
	assert.match(await page.locator("main").innerText(), /Nothing was done|Only users whom/);
	assert.deepEqual(await flows(page), []);
});

test("the page of the skills leads to the account", async (t) => {
	const page = await visit(t, "ben", BRIDGE + "/rpc");
	await page.getByRole("link", { name: "Connect your account at acme" }).click();
	await page.waitForURL(PAGE);
});
