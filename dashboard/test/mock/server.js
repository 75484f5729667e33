// The operator's API without an operator, for work on the page alone: `npm run mock`, then `npm run dev` beside it.
// It answers as docs/internals/operator-api.md says, with numbers made up; tests run against the real program.

import { createServer } from "node:http";
import { readdirSync, readFileSync } from "node:fs";

import { catalogue } from "./catalogue.js";
import { drawn } from "./picture.js";
import { lossOf, World } from "./world.js";

/** @typedef {any} Json */
const root = new URL("../../../", import.meta.url);
const images = /** @type {Record<string, Buffer>} */ ({ drawn: drawn(960, 600) });
const world = new World(images);
const pages = new Set();

/** A results page from what docs/results holds. */
function results() {
  const folder = new URL("docs/results/", root);
  const rows = readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .map((file) => {
      const id = file.replace(/\.json$/, "");
      const toml = readFileSync(new URL(`experiments/${id}.toml`, root), "utf8");
      const of = (/** @type {string} */ key) => new RegExp(`^${key} = "(.*)"$`, "m").exec(toml)?.[1] ?? "";
      const cells = JSON.parse(readFileSync(new URL(file, folder), "utf8")).map(
        (/** @type {Json} */ cell) => ({
          at: cell.cell,
          published: cell.published,
          min: cell.bounds[0],
          max: cell.bounds[1],
          measured: cell.measured[0],
          ratio: cell.published && cell.measured[0] ? cell.measured[0].mean / cell.published : null,
          command: cell.command,
        }),
      );
      const ratios = cells.flatMap((/** @type {Json} */ cell) => cell.ratio ?? []);
      const isNear = ratios.every((/** @type {number} */ ratio) => ratio > 0.7 && ratio < 1.5);
      return {
        id,
        source: id.replace(/^(lt-tcp|dfcp|tcp-fec|ctcp|tcp-nc).*|.*/, "$1") || "fulmar",
        where: /((Table|Figure) [\d.]+)/.exec(of("source"))?.[1] ?? "",
        title: of("title"),
        verdict: ratios.length === 0 ? "not comparable" : isNear ? "reproduced" : "differs",
        counted: true,
        unit: of("y_label") || "Mbit/s",
        cells,
        not_held: [],
        undecided: [],
        explanation: of("remark"),
        command: `fulmar-lab run experiments/${id}.toml && fulmar-lab report`,
      };
    });
  const ids = [...new Set(rows.map((row) => row.source))];
  const sources = ids.map((id) => {
    /** @type {Record<string, number>} */
    const counts = {};
    for (const row of rows) if (row.source === id) counts[row.verdict] = (counts[row.verdict] ?? 0) + 1;
    return { id, title: id, counts };
  });
  return { sources, rows };
}

const state = () => ({
  version: "0.1.0",
  mode: "operator",
  drivers: ["real", "relay", "virtual"].map((name) => ({
    name,
    available: true,
    missing: "",
    steerable: name !== "virtual",
    kernel_tcp: name === "real",
  })),
  agents: world.agents,
  runs: world.runs.map((run) => world.summaryOf(run)),
  running: world.runs.find((run) => run.status === "running")?.id ?? null,
  queue: world.runs.filter((run) => run.status === "queued").map((run) => run.id),
  results_folder: "results/desk",
  watchers: pages.size,
});

/** @param {string} name @param {unknown} data */
function tell(name, data) {
  for (const page of pages) page.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
}
world.on("event", tell);
world.on("state", () => tell("state", state()));

class Refusal extends Error {
  /** @param {number} status @param {string} message @param {string} [field] */
  constructor(status, message, field) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

/** @param {Json} spec */
function check(spec) {
  const loss = lossOf(spec.path.forward.loss || "0%");
  if (!(loss >= 0 && loss <= 1)) {
    throw new Refusal(
      422,
      `'${spec.path.forward.loss}' is not a probability: 5% or 0.05`,
      "path.forward.loss",
    );
  }
}

/** @param {string} id */
function runOf(id) {
  const run = world.runs.find((one) => one.id === id);
  if (!run) throw new Refusal(404, `there is no run ${id}`);
  return run;
}

/** @param {string} method @param {string[]} parts @param {URLSearchParams} query @param {Buffer} body @returns {[number, unknown, Record<string, string>?]} */
function answer(method, parts, query, body) {
  const [what, id, verb, flow] = parts;
  const json = () => JSON.parse(body.toString() || "null");
  switch (`${method} ${what}${id ? "/:id" : ""}${verb ? `/${verb}` : ""}`) {
    case "GET state":
      return [200, state()];
    case "GET catalogue":
      return [200, catalogue];
    case "GET results":
      return [200, results()];
    case "GET experiments":
      return [200, []];
    case "POST check":
      check(json());
      return [200, { seconds: 20 }];
    case "POST runs":
      check(json());
      return [201, world.add(json())];
    case "GET runs/:id":
      return [200, runOf(id ?? "")];
    case "DELETE runs/:id":
      world.runs = world.runs.filter((run) => run.id !== id);
      tell("state", state());
      return [204, null];
    case "POST runs/:id/stop":
      world.end(runOf(id ?? ""), "stopped");
      return [202, world.summaryOf(runOf(id ?? ""))];
    case "GET runs/:id/samples": {
      const all = world.samples.get(id ?? "") ?? [];
      return [200, { next: all.length, samples: all.slice(Number(query.get("from") ?? 0)) }];
    }
    case "PATCH runs/:id/path": {
      const run = runOf(id ?? "");
      run.spec.path = { ...run.spec.path, forward: { ...run.spec.path.forward, ...json().forward } };
      tell("path", { run: run.id, path: run.spec.path, t: run.flows[0].t });
      return [200, run.spec.path];
    }
    case "GET runs/:id/flows": {
      const run = runOf(id ?? "");
      const image = images[run.spec.image] ?? Buffer.alloc(0);
      const got = run.flows[Number(flow)].received_bytes;
      const from = Number(query.get("from") ?? 0);
      const headers = {
        "Content-Type": "image/png",
        "X-Received-Bytes": String(got),
        "X-Total-Bytes": String(image.length),
      };
      return got <= from ? [204, null, headers] : [200, image.subarray(from, got), headers];
    }
    case "GET images":
      return [
        200,
        Object.entries(images).map(([key, file]) => ({
          id: key,
          name: key,
          content_type: "image/png",
          bytes: file.length,
          width: 960,
          height: 600,
          progressive: false,
        })),
      ];
    case "GET images/:id":
      return [200, images[id ?? ""], { "Content-Type": "image/png" }];
    case "POST images": {
      const key = `image-${Object.keys(images).length}`;
      images[key] = body;
      return [
        201,
        {
          id: key,
          name: query.get("name"),
          content_type: "image/png",
          bytes: body.length,
          width: null,
          height: null,
          progressive: false,
        },
      ];
    }
    case "POST experiments/:id":
      return [200, 'title = "mock"\n', { "Content-Type": "text/plain" }];
    default:
      throw new Refusal(404, `${method} /api/${parts.join("/")} is not in the mock`);
  }
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url ?? "/", "http://localhost");
  const parts = url.pathname.split("/").slice(1).map(decodeURIComponent);
  if (parts.shift() !== "api")
    return response.writeHead(404).end("only /api: run `npm run dev` beside this\n");
  if (parts[0] === "events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    pages.add(response);
    request.on("close", () => pages.delete(response));
    response.write(`event: state\ndata: ${JSON.stringify(state())}\n\n`);
    return undefined;
  }
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    const [status, body, headers] = answer(
      request.method ?? "GET",
      parts,
      url.searchParams,
      Buffer.concat(chunks),
    );
    const isRaw = Buffer.isBuffer(body) || typeof body === "string";
    response.writeHead(status, { ...(isRaw ? {} : { "Content-Type": "application/json" }), ...headers });
    response.end(body === null ? undefined : isRaw ? body : JSON.stringify(body));
  } catch (error) {
    const { status, message, field } = error instanceof Refusal ? error : new Refusal(400, String(error));
    response
      .writeHead(status, { "Content-Type": "application/json" })
      .end(JSON.stringify({ error: { message, field } }));
  }
  return undefined;
});

const port = Number(process.env["PORT"] ?? 4700);
server.listen(port, "127.0.0.1", () => console.log(`mock on http://127.0.0.1:${port}`));
