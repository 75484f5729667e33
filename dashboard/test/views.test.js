// Live and Results, and pictures of every page. PICTURES names the folder for those of docs/operator.md.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { browser, Desk, Person, until } from "./desk.js";

/** @type {Desk} */
let desk;
/** @type {import("playwright-core").Browser} */
let chromium;
/** @type {string[]} */
const runs = [];

before(async () => {
  chromium = await browser();
  desk = await Desk.start();
  const { driver, slow, fast } = await desk.means();
  const spec = {
    kind: "test",
    driver,
    transports: ["lt-tcp", fast, slow],
    path: {
      forward: { rate: "50M", delay: "10ms", loss: "3%", burst: "3", mark_threshold: "40p" },
      backward: null,
    },
    amount: { seconds: 1 },
    transfers: 4,
    order: "together",
  };
  // Shown beside each other on the page.
  for (const loss of ["1%", "3%"]) {
    const path = { forward: { ...spec.path.forward, loss }, backward: null };
    runs.push((await desk.run({ ...spec, path, title: `three transports at ${loss}` })).id);
  }
  await desk.idle();
});

after(async () => {
  await chromium?.close();
  await desk?.stop();
});

test("live: values at the cursor, zoom of all charts, series on and off, two runs over each other", async () => {
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  await person.go(`live/${runs[1]}`);
  const goodput = page.getByRole("figure", { name: "Goodput" });
  const loss = page.getByRole("figure", { name: "Loss" });
  await goodput.locator("output", { hasText: /\d/ }).first().waitFor();
  const plot = await goodput.locator(".u-over").boundingBox();
  assert.ok(plot);
  const at = (/** @type {number} */ share) =>
    /** @type {const} */ ([plot.x + plot.width * share, plot.y + plot.height / 2]);
  await page.mouse.move(...at(0.5));
  for (const chart of [goodput, loss]) await chart.getByText(/^at \d/).waitFor();
  const spot = Number.parseFloat(((await goodput.getByText(/^at /).textContent()) ?? "").slice(3));
  assert.ok(spot > 0.2 && spot < 0.9, `${spot}`);

  await page.mouse.move(...at(0.25));
  await page.mouse.down();
  await page.mouse.move(...at(0.5), { steps: 5 });
  await page.mouse.up();
  const out = page.getByRole("button", { name: "Zoom out" });
  await until(
    () => out.isEnabled(),
    (isThere) => isThere,
    "the zoom",
  );
  await page.mouse.move(...at(0.02));
  const from = Number.parseFloat(((await loss.getByText(/^at /).textContent()) ?? "").slice(3));
  assert.ok(from > 0.15, `the other charts zoom too: ${from}`);
  await out.click();

  const values = goodput.locator(".readouts .first, .readouts .behind");
  const shows = (/** @type {number} */ lines) =>
    until(
      () => values.count(),
      (count) => count === lines,
      `${lines} lines`,
    );
  await shows(3);
  await page.getByRole("group", { name: "transports" }).getByRole("button", { name: "lt-tcp" }).click();
  await shows(2);
  await page.getByRole("group", { name: "charts" }).getByRole("button", { name: "Queue" }).click();
  await page.getByRole("figure", { name: "Queue" }).waitFor({ state: "detached" });

  await page.getByLabel("Behind it").selectOption(/** @type {string} */ (runs[0]));
  await shows(4);
  await page.waitForURL((url) => url.hash.includes(String(runs[0])));
  await person.leave();
});

test("results: verdicts first, by source, with explanation, command and cells", async () => {
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  await person.go("results");
  const rows = page.locator(".result-row");
  await rows.first().waitFor();
  const { rows: all, sources } = await desk.get("results");
  assert.equal(await rows.count(), all.length);
  const box = await rows.first().boundingBox();
  assert.ok(box && box.y < 400, "the table is on the first screen");
  // The last source of which there are results; the sources stand at the end of the links.
  const at = sources.findLastIndex((/** @type {any} */ source) =>
    all.some((/** @type {any} */ row) => row.source === source.id),
  );
  const source = sources[at];
  const links = page.getByRole("navigation", { name: "sources" }).getByRole("link");
  await links.filter({ hasText: source.title }).click();
  const own = all.filter((/** @type {any} */ row) => row.source === source.id);
  await until(
    () => rows.count(),
    (count) => count === own.length,
    "the rows of one source",
  );
  await rows.first().getByRole("button").click();
  await page.locator(".detail code").getByText(own[0].command).first().waitFor();
  assert.equal(await page.locator(".detail .figures tbody tr").count(), own[0].cells.length);
  await person.leave();
});

/** @param {Person} person @param {string} name */
async function picture(person, name) {
  const { page } = person;
  // Wider than the screen is a mistake on a phone.
  const [wide, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok((wide ?? 0) <= (width ?? 0), `${name}: ${wide} pixels on a screen of ${width}`);
  const folder = process.env["PICTURES"];
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), animations: "disabled" });
}

for (const width of [1280, 390]) {
  for (const colorScheme of /** @type {const} */ (["dark", "light"])) {
    test(`every page fits a screen of ${width} pixels, ${colorScheme}`, async () => {
      const viewport = { width, height: width > 400 ? 860 : 844 };
      const person = await Person.enter(chromium, desk, { viewport, colorScheme });
      const { page } = person;
      const suffix = `${width}-${colorScheme}`;
      await person.go(`testing/${runs[1]}`);
      await page.locator(".strip .mark").first().waitFor();
      if (width < 400) await page.locator(".run-head").scrollIntoViewIfNeeded();
      await picture(person, `testing-${suffix}`);
      await person.go(`live/${runs[1]}/${runs[0]}`);
      await page.getByRole("figure", { name: "Repair" }).locator(".behind").first().waitFor();
      await picture(person, `live-${suffix}`);
      await person.go("results");
      await page.locator(".result-row").first().waitFor();
      if (width > 400) await page.locator(".result-row").first().click();
      await picture(person, `results-${suffix}`);
      await person.go("demonstration");
      await page.locator(".presets button").first().click();
      await page.waitForFunction(() => !document.querySelector("button.go")?.hasAttribute("disabled"));
      await page.getByRole("button", { name: "Start" }).click();
      await page.waitForURL(/demonstration\/./);
      await page
        .getByText(/coming|stalled|complete after/)
        .first()
        .waitFor();
      await page
        .getByText(/complete after/)
        .first()
        .waitFor({ timeout: 60_000 });
      if (width < 400) await page.locator(".hand").evaluate((hand) => hand.scrollIntoView());
      await picture(person, `demonstration-${suffix}`);
      await desk.quiesce();
      await person.leave();
    });
  }
}
