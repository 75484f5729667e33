// Runs that look like runs: every transport reaches a share of the rate that falls with loss, quickly for TCP.

import { EventEmitter } from "node:events";

/** @typedef {any} Json */

const kinds = [
  { test: /^tcp-cubic|^cubic|^newreno|^tcp-reno|^reno/, strength: 0.012 },
  { test: /^tcp-bbr/, strength: 0.55 },
  { test: /^lt-tcp/, strength: 0.72 },
];

/** @param {string} transport @param {number} loss */
function share(transport, loss) {
  const strength = kinds.find((kind) => kind.test.test(transport))?.strength ?? 0.88;
  return loss === 0 ? 0.95 : Math.min(0.95, strength * (0.08 / (loss + 0.03)));
}

/** @param {string | undefined} word */
export function lossOf(word) {
  const value = Number.parseFloat(word ?? "0");
  return word?.endsWith("%") ? value / 100 : value;
}

/** @param {string | undefined} word */
function mbpsOf(word) {
  const scale = /** @type {Record<string, number>} */ ({ k: 1e-3, M: 1, G: 1e3 });
  const match = /^([\d.]+)([kMG])/.exec(word ?? "1G");
  return match ? Number(match[1]) * (scale[match[2] ?? "M"] ?? 1) : 1000;
}

/** @param {number[]} values */
function summary(values) {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const n = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / n;
  const sd = n < 2 ? 0 : Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1));
  const median = /** @type {number} */ (sorted[Math.floor(n / 2)]);
  return { n, mean, sd, ci95: (2.1 * sd) / Math.sqrt(n), median, min: sorted[0], max: sorted[n - 1] };
}

export class World extends EventEmitter {
  /** @param {Record<string, Buffer>} images */
  constructor(images) {
    super();
    this.images = images;
    /** @type {Json[]} */
    this.runs = [];
    /** @type {Map<string, Json[]>} */
    this.samples = new Map();
    this.count = 0;
    this.agents = ["left", "right"].map((name, index) => ({
      name,
      role: index === 0 ? "sender" : "receiver",
      address: `127.0.0.1:4010${index}`,
      data_address: `10.77.0.${index + 1}`,
      key: "SHA256:3Jk0mock",
      connected: true,
      since_s: 3,
    }));
    setInterval(() => this.tick(), 100).unref();
  }

  /** @param {Json} spec */
  add(spec) {
    const now = new Date();
    const stamp = now.toISOString().replace(/[-:]/g, "").replace("T", "-").slice(0, 15);
    const isDemo = spec.kind === "demo";
    const full = {
      title: "",
      preset: "",
      time_max_s: 60,
      transfers: 1,
      order: isDemo ? "together" : "in_turn",
      seed: 1,
      ecn: false,
      drops_outliers: false,
      loss_free_handshake: true,
      image: isDemo ? "drawn" : "",
      ...spec,
    };
    const run = {
      id: `${stamp}-${++this.count}`,
      title: spec.title || spec.transports.join(", "),
      kind: spec.kind,
      driver: spec.driver,
      transports: spec.transports,
      status: "queued",
      error: null,
      progress: { done: 0, total: spec.transports.length * full.transfers, elapsed_s: 0, left_s: null },
      created_unix_s: Math.floor(Date.now() / 1000),
      steps: 0,
      spec: full,
      transfers: [],
      statistics: [],
      folder: `results/desk/${stamp}`,
      flows: spec.transports.map((/** @type {string} */ _, /** @type {number} */ flow) => ({
        flow,
        transfer: 0,
        status: "waiting",
        received_bytes: 0,
        t: 0,
        total_bytes: isDemo ? (this.images[full.image]?.length ?? null) : (spec.amount.bytes ?? null),
      })),
    };
    this.runs.unshift(run);
    this.samples.set(run.id, []);
    this.emit("state");
    return run;
  }

  /** @param {Json} run */
  summaryOf(run) {
    const { spec, transfers, statistics, flows, folder, ...rest } = run;
    return rest;
  }

  tick() {
    const run =
      this.runs.find((one) => one.status === "running") ??
      this.runs.findLast((one) => one.status === "queued");
    if (!run) return;
    if (run.status === "queued") {
      run.status = "running";
      this.emit("state");
    }
    run.progress.elapsed_s += 0.1;
    const open = run.flows.filter(
      (/** @type {Json} */ flow) => flow.transfer < run.spec.transfers && !flow.isOver,
    );
    const active = run.spec.order === "together" ? open : open.slice(0, 1);
    const fresh = active.map((/** @type {Json} */ flow) => this.advance(run, flow));
    this.samples.get(run.id)?.push(...fresh);
    this.emit("event", "samples", { run: run.id, samples: fresh });
    run.steps = 5;
    const { progress } = run;
    progress.done = run.transfers.length;
    progress.left_s =
      progress.done > 0 ? (progress.elapsed_s / progress.done) * (progress.total - progress.done) : 12;
    if (progress.done === progress.total) this.end(run, "done");
    else this.emit("event", "run", this.summaryOf(run));
  }

  /** @param {Json} run @param {Json} flow */
  advance(run, flow) {
    const { forward } = run.spec.path;
    const name = run.transports[flow.flow];
    const loss = lossOf(forward.loss);
    const speed =
      mbpsOf(forward.rate) *
      share(name, loss) *
      (0.7 + 0.6 * Math.random()) *
      (Math.random() < 0.1 ? 0.2 : 1);
    flow.status = "running";
    flow.t += 0.1;
    flow.received_bytes += Math.round((speed * 1e5) / 8);
    if (flow.total_bytes !== null) flow.received_bytes = Math.min(flow.received_bytes, flow.total_bytes);
    const offered = Math.round((flow.received_bytes / 1200) * (1 + loss));
    const sample = {
      flow: flow.flow,
      transfer: flow.transfer,
      t: Number(flow.t.toFixed(3)),
      received_bytes: flow.received_bytes,
      sequence_bytes: flow.received_bytes + 2e5,
      goodput_mbps: speed,
      window_bytes: speed * 4000 + 2e4,
      in_flight_bytes: speed * 3500 + 1e4,
      rtt_ms: 20 + 8 * Math.random(),
      pacing_mbps: null,
      queue_bytes: 5e4 * Math.random(),
      lost_packets: Math.round(offered * loss),
      dropped_packets: 0,
      marked_packets: 0,
      offered_packets: offered,
      loss,
      loss_estimate: name.startsWith("tcp-") ? null : loss * (0.8 + 0.4 * Math.random()),
      repair_packets: Math.round(offered * loss * 1.2),
      redundancy: loss * 1.3,
    };
    const isTimed = "seconds" in run.spec.amount && run.kind === "test";
    const isEnd = isTimed
      ? flow.t >= run.spec.amount.seconds
      : flow.received_bytes >= (flow.total_bytes ?? Infinity);
    if (isEnd || flow.t > run.spec.time_max_s)
      this.endTransfer(run, flow, sample, isTimed ? "time" : isEnd ? "complete" : "gave_up");
    return sample;
  }

  /** @param {Json} run @param {Json} flow @param {Json} sample @param {string} status */
  endTransfer(run, flow, sample, status) {
    const transfer = {
      flow: flow.flow,
      transfer: flow.transfer,
      seed: run.spec.seed + flow.transfer,
      status,
      error: null,
      received_bytes: flow.received_bytes,
      time_s: flow.t,
      goodput_mbps: (flow.received_bytes * 8) / flow.t / 1e6,
      wire_ratio: 1.09,
      lost_packets: sample.lost_packets,
      offered_packets: sample.offered_packets,
      repair_packets: sample.repair_packets,
    };
    run.transfers.push(transfer);
    flow.status = status;
    flow.transfer += 1;
    if (flow.transfer < run.spec.transfers) Object.assign(flow, { t: 0, received_bytes: 0 });
    else flow.isOver = true;
    run.statistics = run.transports.map((/** @type {string} */ _, /** @type {number} */ index) => {
      const own = run.transfers.filter((/** @type {Json} */ one) => one.flow === index);
      const all = {
        time_s: summary(own.map((/** @type {Json} */ one) => one.time_s)),
        goodput_mbps: summary(own.map((/** @type {Json} */ one) => one.goodput_mbps)),
      };
      return { flow: index, all, kept: all, left_out: own.length > 3 ? [0] : [] };
    });
    this.emit("event", "transfer", { run: run.id, transfer });
    this.emit("event", "statistics", { run: run.id, statistics: run.statistics });
  }

  /** @param {Json} run @param {string} status @param {string | null} error */
  end(run, status, error = null) {
    Object.assign(run, { status, error, steps: 0 });
    run.progress.left_s = 0;
    this.emit("event", "run", this.summaryOf(run));
    this.emit("state");
  }
}
