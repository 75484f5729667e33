// The state is the controller's: pages come, go and are several, and what is lost is said.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { browser, Desk, Person, until } from "./desk.js";

/** @type {Desk} */
let desk;
/** @type {import("playwright-core").Browser} */
let chromium;

before(async () => {
  chromium = await browser();
  desk = await Desk.start();
});

after(async () => {
  await chromium?.close();
  await desk?.stop();
});

/** Long enough to be met in the middle. */
async function long() {
  const { driver, slow, fast } = await desk.means();
  return {
    kind: "test",
    driver,
    transports: [fast, slow],
    path: { forward: { rate: "10M", delay: "5ms", loss: "1%" }, backward: null },
    amount: { seconds: 1 },
    transfers: 30,
  };
}

/** @param {import("playwright-core").Page} page */
const head = (page) => page.getByRole("region", { name: "the run" });

test("the wrong token opens nothing, the right one does", async () => {
  for (const place of ["/", "/?token=wrong"]) {
    assert.equal((await fetch(`${desk.origin}${place}`, { redirect: "manual" })).status, 403, place);
  }
  assert.equal((await fetch(`${desk.origin}/api/state`)).status, 401);
  assert.equal((await desk.api("state", { headers: { Authorization: "Bearer wrong" } })).status, 401);
  assert.equal((await desk.api("state", { headers: { Origin: "http://example.org" } })).status, 403);

  const person = await Person.enter(chromium, desk);
  assert.ok(!person.page.url().includes("token"), "the token leaves the address");
  await person.leave();
});

test("stop ends the run at once, and what has been measured stays", async () => {
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  const run = await desk.run(await long());
  await page.getByRole("cell", { name: /\d/ }).first().waitFor({ timeout: 60_000 });
  await head(page).getByRole("button", { name: "Stop" }).click();
  await head(page).getByText("stopped", { exact: true }).first().waitFor();
  const after = await desk.get(`runs/${run.id}`);
  assert.equal(after.status, "stopped");
  assert.ok(after.transfers.length > 0 && after.progress.done < after.progress.total);
  await page.locator(".strip .mark").first().waitFor();
  await person.leave();
});

test("a reload in the middle of a run finds everything again", async () => {
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  const run = await desk.run(await long());
  await until(
    () => desk.get(`runs/${run.id}`),
    (now) => now.transfers.length >= 2,
    "two transfers",
  );
  await page.reload();
  await head(page).getByText("running", { exact: true }).first().waitFor();
  await until(
    () => page.locator(".strip .mark").count(),
    (count) => count >= 2,
    "marks of what ended before the reload",
  );
  await person.go(`live/${run.id}`);
  const chart = page.getByRole("figure", { name: "Goodput" });
  await chart.locator("output", { hasText: /\d/ }).first().waitFor();
  await desk.quiesce();
  await person.leave();
});

test("two operators watch one run; what one does the other sees", async () => {
  const [one, two] = await Promise.all([Person.enter(chromium, desk), Person.enter(chromium, desk)]);
  const { driver, fast, slow } = await desk.means();
  await Promise.all([one.go("demonstration"), two.go("demonstration")]);
  await desk.run({
    kind: "demo",
    driver,
    transports: [fast, slow],
    path: { forward: { rate: "300k", delay: "10ms", loss: "3%" }, backward: null },
    amount: { bytes: 1 },
    time_max_s: 300,
  });
  await Promise.all(
    [one, two].map(({ page }) => head(page).getByText("running", { exact: true }).first().waitFor()),
  );
  await one.page
    .getByText(/2 watching/)
    .first()
    .waitFor();
  const slider = (/** @type {Person} */ who) => who.page.getByRole("slider", { name: "Loss" });
  await slider(one).focus();
  await one.page.keyboard.press("ArrowRight");
  const word = await until(
    () => slider(one).getAttribute("aria-valuetext"),
    (now) => now !== "3%",
    "the slider that was moved",
  );
  await until(
    () => slider(two).getAttribute("aria-valuetext"),
    (now) => now === word,
    "the other's slider",
  );
  await head(two.page).getByRole("button", { name: "Stop" }).click();
  await head(one.page).getByText("stopped", { exact: true }).first().waitFor();
  await Promise.all([one.leave(), two.leave()]);
});

test("a lost agent is an error on the run, not a hang, and the next run is well", async () => {
  if (!desk.child) return; // Somebody else's desk: its agents are not ours to end.
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  const spec = await long();
  const run = await desk.run(spec);
  await until(
    () => desk.get(`runs/${run.id}`),
    (now) => now.transfers.length >= 1,
    "a transfer",
  );
  const agents = desk.children().filter(({ command }) => / agent /.test(`${command} `));
  assert.ok(agents.length >= 2, JSON.stringify(desk.children()));
  process.kill(/** @type {{ pid: number }} */ (agents.at(-1)).pid, "SIGKILL");
  await head(page).getByText("failed", { exact: true }).first().waitFor();
  assert.match((await head(page).getByRole("alert").first().textContent()) ?? "", /agent '\w+'/);
  await desk.idle();
  const next = await desk.run({ ...spec, transfers: 1 });
  const end = await until(
    () => desk.get(`runs/${next.id}`),
    (now) => !["queued", "running"].includes(now.status),
    "the next run's end",
  );
  assert.equal(end.status, "done", end.error);
  await person.leave();
});

test("a program that is killed leaves nothing behind; the page waits for the next, and asks for its token", async () => {
  if (!desk.child) return;
  const person = await Person.enter(chromium, desk);
  person.expected = /ERR_|Failed to load resource/;
  const { page } = person;
  await desk.run(await long());
  await head(page).getByText("running", { exact: true }).first().waitFor();
  const processes = desk.children().map(({ pid }) => pid);
  assert.ok(processes.length >= 2);
  desk.child.kill("SIGKILL");
  await page.locator(".banner", { hasText: "The program does not answer." }).waitFor();
  await until(
    async () => processes.filter((pid) => isAlive(pid)),
    (alive) => alive.length === 0,
    "processes left behind",
  );
  const next = await Desk.start(new URL(desk.url).host);
  await desk.stop();
  desk = next;
  await page.getByRole("heading", { name: "This desk is locked" }).waitFor();
  await page.getByLabel("Address or token").fill(desk.url);
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "pages" }).waitFor();
  await person.leave();
});

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
