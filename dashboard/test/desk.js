// What the browser tests stand on: the real program, a real browser, and a page that tells of every mistake.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../../", import.meta.url));
export const program = process.env["FULMAR_LAB"] ?? join(root, "target/debug/fulmar-lab");

/** @typedef {import("playwright-core").Browser} Browser */
/** @typedef {import("playwright-core").Page} Page */
/** @typedef {import("playwright-core").BrowserContextOptions} ContextOptions */

/** A running `fulmar-lab operator`, or the desk at DESK_URL that somebody has started. */
export class Desk {
  /** @param {string} url @param {import("node:child_process").ChildProcess | null} child @param {string | null} folder */
  constructor(url, child, folder) {
    this.url = url;
    this.child = child;
    this.folder = folder;
    this.origin = new URL(url).origin;
    this.token = new URL(url).searchParams.get("token") ?? "";
  }

  /** @param {string} [listen] @returns {Promise<Desk>} */
  static async start(listen = "127.0.0.1:0") {
    const given = process.env["DESK_URL"];
    if (given) return new Desk(given, null, null);
    const folder = mkdtempSync(join(tmpdir(), "fulmar-desk-"));
    // What is tested is the page: a transfer counts however busy the machine is.
    const child = spawn(
      program,
      ["operator", "--listen", listen, "--no-open", "--late-max", "10s", "--out", folder],
      {
        cwd: root,
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const lines = createInterface({ input: child.stdout });
    const url = await new Promise((resolve, reject) => {
      lines.once("line", resolve);
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`${program} operator ended with ${code}`)));
    });
    return new Desk(url, child, folder);
  }

  async stop() {
    const { child, folder } = this;
    if (child && child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
    }
    if (folder) rmSync(folder, { recursive: true, force: true });
  }

  /** Asks the program itself. @param {string} path @param {RequestInit} [init] */
  async api(path, init = {}) {
    const headers = {
      Authorization: `Bearer ${this.token}`,
      "Content-Type": "application/json",
      ...init.headers,
    };
    return fetch(`${this.origin}/api/${path}`, { ...init, headers });
  }

  /** @param {string} path @returns {Promise<any>} */
  async get(path) {
    return (await this.api(path)).json();
  }

  /** What carries runs here, and two transports that it can carry: one repairs, one gives way to every loss. */
  async means() {
    const { drivers } = await this.get("state");
    const driver = ["real", "relay"].find((name) =>
      drivers.some((/** @type {any} */ d) => d.name === name && d.available),
    );
    assert.ok(driver, "neither the real driver nor the relay is there");
    return { driver, slow: driver === "real" ? "tcp-cubic" : "cubic", fast: "auto" };
  }

  /** Starts a run without the page. @param {object} spec @returns {Promise<any>} */
  async run(spec) {
    const answer = await this.api("runs", { method: "POST", body: JSON.stringify(spec) });
    const run = /** @type {any} */ (await answer.json());
    assert.equal(answer.status, 201, JSON.stringify(run));
    return run;
  }

  /** Waits until nothing runs or waits. */
  async idle() {
    for (;;) {
      const { running, queue } = await this.get("state");
      if (running === null && queue.length === 0) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** Stops what is under way, so that one test does not wait for another's run. */
  async quiesce() {
    const { running, queue } = await this.get("state");
    for (const id of [...queue, running]) if (id) await this.api(`runs/${id}/stop`, { method: "POST" });
    await this.idle();
  }

  /** Processes that the program has started, with their command lines. */
  children() {
    const parent = String(this.child?.pid);
    /** @type {{ pid: number, command: string }[]} */
    const found = [];
    const open = [parent];
    const all = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .flatMap(statOf);
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      for (const { pid, parent: of, command } of all) {
        if (of !== next) continue;
        open.push(pid);
        found.push({ pid: Number(pid), command });
      }
    }
    return found;
  }
}

/** @param {string} pid */
function statOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
    const parent = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] ?? "";
    return [{ pid, parent, command }];
  } catch {
    return []; // It ended while we looked.
  }
}

/** @returns {Promise<Browser>} */
export function browser() {
  const places = [
    process.env["CHROMIUM"],
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
  ];
  const executablePath = places.find((place) => place && existsSync(place));
  assert.ok(executablePath, "there is no Chromium: scripts/dashboard installs it");
  const args = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
  ];
  args.push("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage");
  return chromium.launch({ executablePath, headless: true, args });
}

/** A page of a person of its own (cookies, storage) that fails the test on any mistake or request to another host. */
export class Person {
  /** @param {import("playwright-core").BrowserContext} context @param {Page} page @param {string} origin */
  constructor(context, page, origin) {
    this.context = context;
    this.page = page;
    /** @type {string[]} */
    this.mistakes = [];
    /** Messages of the browser that a test expects: a refusal is also written to the console. */
    this.expected = /$^/;
    page.on("pageerror", (error) => this.mistakes.push(`error: ${error.message}`));
    page.on("console", (message) => {
      // Browsers ask for this whatever the page says about its icon.
      if (message.location().url.endsWith("/favicon.ico")) return;
      if (message.type() === "error")
        this.mistakes.push(`console: ${message.text()} ${message.location().url}`);
    });
    page.on("request", (request) => {
      const url = request.url();
      if (!/^(blob|data|about):/.test(url) && !url.startsWith(origin))
        this.mistakes.push(`asks another host: ${url}`);
    });
  }

  /** @param {Browser} from @param {Desk} desk @param {ContextOptions} [options] */
  static async enter(from, desk, options = {}) {
    const context = await from.newContext({
      viewport: { width: 1280, height: 860 },
      acceptDownloads: true,
      ...options,
    });
    context.setDefaultTimeout(60_000);
    if (process.env["PAGE"] === "dist") await servePage(context, desk.origin);
    const page = await context.newPage();
    const person = new Person(context, page, desk.origin);
    await page.goto(desk.url);
    await page.getByRole("navigation", { name: "pages" }).waitFor();
    return person;
  }

  /** @param {string} place */
  async go(place) {
    await this.page.evaluate((hash) => {
      location.hash = hash;
    }, `#/${place}`);
  }

  async leave() {
    await this.context.close();
    assert.deepEqual(
      this.mistakes.filter((mistake) => !this.expected.test(mistake)),
      [],
    );
  }
}

/** The page as it lies in dist/, in place of the one in the program: for work on it without building the program anew.
 * @param {import("playwright-core").BrowserContext} context @param {string} origin */
async function servePage(context, origin) {
  await context.route(`${origin}/assets/**`, (route) =>
    route.fulfill({ path: join(root, "dashboard/dist", new URL(route.request().url()).pathname) }),
  );
  await context.route(`${origin}/`, (route) =>
    route.fulfill({ path: join(root, "dashboard/dist/index.html") }),
  );
}

/** Asks again and again until the answer is right. @template T @param {() => Promise<T>} ask @param {(value: T) => boolean} isRight @param {string} what */
export async function until(ask, isRight, what) {
  const end = Date.now() + 60_000;
  for (;;) {
    const value = await ask();
    if (isRight(value)) return value;
    assert.ok(Date.now() < end, `${what}: still ${JSON.stringify(value)?.slice(0, 500)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
