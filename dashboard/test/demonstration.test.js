// Demonstration: two transports carry one picture; everybody sees it come, and sees who stalls.

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

/** The share of a screen's picture that is painted, by its own pixels. @param {import("playwright-core").Locator} screen */
function painted(screen) {
  return screen.locator("canvas").evaluate((canvas) => {
    const { width, height } = /** @type {HTMLCanvasElement} */ (canvas);
    const data =
      /** @type {HTMLCanvasElement} */ (canvas).getContext("2d")?.getImageData(0, 0, width, height).data ??
      [];
    let filled = 0;
    for (let at = 3; at < data.length; at += 4) if ((data[at] ?? 0) > 0) filled += 1;
    return filled / (width * height);
  });
}

/** @param {import("playwright-core").Page} page @param {string} name @param {string} stop */
async function slide(page, name, stop) {
  const slider = page.getByRole("slider", { name });
  await slider.focus();
  await page.keyboard.press("Home");
  for (let presses = 0; presses < 40; presses += 1) {
    if ((await slider.getAttribute("aria-valuetext")) === stop) return;
    await page.keyboard.press("ArrowRight");
  }
  assert.fail(`${name} has no stop ${stop}`);
}

test("both pictures come part by part, are complete at different times, and the sliders act meanwhile", async () => {
  const { driver, slow, fast } = await desk.means();
  // Bursts are counted in packets: in long ones TCP's retransmissions are lost one after the other, and its timeout doubles to minutes.
  const forward = { rate: "20M", delay: "20ms", loss: "6%", burst: "2" };
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  await person.go("demonstration");
  const run = await desk.run({
    kind: "demo",
    driver,
    transports: [fast, slow],
    path: { forward, backward: null },
    amount: { bytes: 1 },
    time_max_s: 300,
  });
  const screens = [fast, slow].map((name) => page.getByRole("article", { name, exact: true }));
  const [quick, laggard] =
    /** @type {[import("playwright-core").Locator, import("playwright-core").Locator]} */ (screens);
  await laggard
    .getByText(/coming|stalled/)
    .first()
    .waitFor();
  const partly = await until(
    () => painted(quick),
    (share) => share > 0,
    "the first part of the picture",
  );
  assert.ok(partly > 0);
  await quick
    .getByText(/complete after/)
    .first()
    .waitFor({ timeout: 60_000 });
  // With the loss taken away, the one that gives way to losses comes to its end as well.
  await slide(page, "Loss", "0%");
  await until(
    () => desk.get(`runs/${run.id}`),
    (now) => Number.parseFloat(now.spec.path.forward.loss || "0") === 0,
    "the loss that the slider has set",
  );
  await laggard
    .getByText(/complete after/)
    .first()
    .waitFor({ timeout: 120_000 });
  await laggard
    .getByText(/× the first/)
    .first()
    .waitFor();
  for (const screen of screens) {
    await until(
      () => painted(screen),
      (share) => share === 1,
      "a whole picture",
    );
  }
  const { transfers } = await until(
    () => desk.get(`runs/${run.id}`),
    (now) => now.status === "done",
    "the end of the run",
  );
  const times = transfers.map((/** @type {any} */ transfer) => [transfer.flow, transfer.time_s]);
  const timeOf = new Map(times);
  assert.ok(timeOf.get(1) > timeOf.get(0), `they differ: ${times}`);
  await person.leave();
});

test("a picture of one's own", async () => {
  const person = await Person.enter(chromium, desk);
  const { page } = person;
  await person.go("demonstration");
  // A baseline JPEG, made by the browser itself.
  const jpeg = await page.evaluate(async () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [320, 200];
    const context = canvas.getContext("2d");
    for (let x = 0; x < 320; x += 4) {
      if (!context) return [];
      context.fillStyle = `hsl(${x} 80% ${30 + (x % 40)}%)`;
      context.fillRect(x, 0, 4, 200);
    }
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.95));
    return [...new Uint8Array(await /** @type {Blob} */ (blob).arrayBuffer())];
  });
  const file = { name: "stripes.jpg", mimeType: "image/jpeg", buffer: Buffer.from(jpeg) };
  await page.locator('input[type="file"]').setInputFiles(file);
  const choice = page.getByRole("combobox", { name: "Picture" });
  await until(
    () =>
      choice.evaluate((select) => /** @type {HTMLSelectElement} */ (select).selectedOptions[0]?.text ?? ""),
    (text) => text === "stripes.jpg",
    "the chosen picture",
  );
  await page.locator(".presets button").first().click();
  await page.getByRole("button", { name: /^(Start|Queue)$/ }).click();
  const screen = page.getByRole("article").first();
  await screen
    .getByText(/complete after/)
    .first()
    .waitFor({ timeout: 60_000 });
  await until(
    () => painted(screen),
    (share) => share === 1,
    "a whole picture",
  );
  assert.equal(
    await screen.locator("canvas").evaluate((canvas) => /** @type {HTMLCanvasElement} */ (canvas).width),
    320,
  );
  await desk.quiesce();
  await person.leave();
});
