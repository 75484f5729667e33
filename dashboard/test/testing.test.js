// Testing, as a person uses it: from the choice to a saved experiment, and back.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { browser, Desk, Person, program, until } from "./desk.js";

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

/** @param {import("playwright-core").Page} page @param {string[]} names */
async function choose(page, names) {
  const chosen = page.getByRole("list", { name: "chosen transports" });
  while ((await chosen.getByRole("button").count()) > 0) await chosen.getByRole("button").first().click();
  await page.getByText("Add transports").click();
  for (const name of names) {
    if (name.includes(":")) {
      await page.getByLabel("profile with settings").fill(name);
      await page.getByRole("button", { name: "Add", exact: true }).click();
    } else {
      await page.getByRole("checkbox", { name, exact: true }).check();
    }
  }
  await page.getByText("Add transports").click();
  assert.deepEqual(await chosen.locator("li > span").allTextContents(), names);
}

test("from the choice to the saved experiment, and back", async () => {
  const { driver, slow } = await desk.means();
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  const names = ["auto", slow, "lt-tcp:rto_max=5"];
  const label = driver === "real" ? "bridge" : "relay";
  await page.getByRole("radio", { name: label, exact: true }).check();
  await choose(page, names);
  await page.getByLabel(/^rate A to B/i).fill("20M");
  await page.getByLabel(/^delay.* A to B/i).fill("5ms");
  await page.getByLabel(/^loss.* A to B/i).fill("2%");
  await page.getByLabel(/burst.* A to B/i).fill("2");
  await page.getByRole("radio", { name: "a time" }).check();
  await page.getByLabel("Time", { exact: true }).fill("1s");
  await page.getByLabel("Transfers of each").fill("2");
  const head = page.getByRole("region", { name: "the run" });
  // Looked for before it begins: a slow machine may be late to look, not late to see.
  const seen = Promise.all([
    head.getByText("running", { exact: true }).first().waitFor(),
    head.getByText(/left$/).first().waitFor(),
  ]);
  await page.getByRole("button", { name: /^(Start|Queue)$/ }).click();
  await seen;
  await head.getByText("done", { exact: true }).first().waitFor({ timeout: 90_000 });
  const result = page.getByRole("region", { name: "Result" });
  // Transfers whose packets this machine could not move in time are told, and do not count.
  const [{ id }] = (await desk.get("state")).runs;
  const { transfers } = await desk.get(`runs/${id}`);
  assert.equal(transfers.length, 6);
  const counting = transfers.filter((/** @type {any} */ t) => t.status !== "invalid");
  await until(
    () => result.locator(".strip .mark").count(),
    (count) => count === counting.length,
    "a mark for each transfer that counts",
  );
  const rows = result.locator(".figures tbody tr");
  for (const [index, name] of names.entries()) {
    const cells = await rows.nth(index).locator("th, td").allTextContents();
    assert.equal(cells[0], name);
    const count = counting.filter((/** @type {any} */ t) => t.flow === index).length;
    assert.equal(cells[1], String(count));
    // Mean, median and extremes of those that count; a single one has no deviation, two have no interval.
    const isFigure = (/** @type {number} */ at) => Number(cells[at]) >= 0;
    for (const at of [2, 5, 6, 7]) assert.equal(isFigure(at), count > 0, `${name}: ${cells}`);
    assert.equal(isFigure(3), count > 1, `${name}: ${cells}`);
    assert.equal(isFigure(4), count > 2, `${name}: ${cells}`);
  }

  const [download] = await Promise.all([
    page.waitForEvent("download"),
    result.getByRole("button", { name: "TOML" }).click(),
  ]);
  const file = await download.path();
  const toml = readFileSync(file, "utf8");
  for (const name of names) assert.ok(toml.includes(`"${name}"`), toml);
  for (const what of ["CSV", "JSON"]) {
    const [table] = await Promise.all([
      page.waitForEvent("download"),
      result.getByRole("button", { name: what, exact: true }).click(),
    ]);
    assert.ok(readFileSync(await table.path(), "utf8").split("auto").length >= (what === "CSV" ? 3 : 1));
  }

  // The file is an experiment for the program ..
  const run = spawnSync(program, ["run", file, "--quick"], { cwd: desk.folder ?? "/tmp", encoding: "utf8" });
  assert.equal(run.status, 0, `${run.stdout}${run.stderr}`);
  // .. and for the page.
  await choose(page, ["ctcp"]);
  await page.getByLabel(/^loss.* A to B/i).fill("9%");
  await page.locator('input[type="file"]').setInputFiles(file);
  const chosen = page.getByRole("list", { name: "chosen transports" });
  await chosen.getByText(slow, { exact: true }).waitFor();
  assert.deepEqual((await chosen.locator("li > span").allTextContents()).sort(), [...names].sort());
  assert.equal(await page.getByLabel(/^loss.* A to B/i).inputValue(), "2%");
  assert.equal(await page.getByLabel("Time", { exact: true }).inputValue(), "1s");
  assert.equal(await page.getByLabel("Transfers of each").inputValue(), "2");
  await person.leave();
});

test("what is impossible is said at its field, and cannot be started", async () => {
  const person = await Person.enter(chromium, desk);
  person.expected = /status of 422/;
  const { page } = person;
  const start = page.getByRole("button", { name: "Start" });
  await page.getByLabel(/^loss.* A to B/i).fill("5 apples");
  const field = page.locator(".word.wrong");
  await field.getByRole("alert").waitFor();
  assert.match((await field.getByRole("alert").textContent()) ?? "", /apples/);
  await until(
    () => start.isDisabled(),
    (isDisabled) => isDisabled,
    "the button",
  );
  await page.getByLabel(/^loss.* A to B/i).fill("5%");
  await field.waitFor({ state: "detached" });
  await page.waitForFunction(() => !document.querySelector("button.go")?.hasAttribute("disabled"));
  await page.locator('input[type="file"]').setInputFiles({
    name: "wrong.toml",
    mimeType: "application/toml",
    buffer: Buffer.from('title = "x"\nduration = "5 apples"\n[[flow]]\nsender = "auto"\n'),
  });
  await page.getByText(/:2:/).first().waitFor();
  await person.leave();
});

test("each direction apart, by keyboard alone", async () => {
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  await page.getByRole("switch", { name: "each direction apart" }).focus();
  await page.keyboard.press("Space");
  const back = page.getByLabel(/^loss.* B to A/i);
  await back.fill("");
  await back.press("ArrowUp");
  await back.press("ArrowUp");
  assert.equal(await back.inputValue(), "0.2%");
  await back.press("ArrowDown");
  assert.equal(await back.inputValue(), "0.1%");
  await page.locator("h2").first().click();
  await page.keyboard.press("4");
  await page.getByRole("region", { name: "verdicts" }).waitFor();
  await page.keyboard.press("1");
  assert.equal(await page.getByLabel(/^loss.* B to A/i).inputValue(), "0.1%", "the form is kept");
  await person.leave();
});
