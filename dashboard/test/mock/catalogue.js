// What the mock offers: as docs/internals/operator-api.md has it, with a few entries of each kind.

const all = ["real", "relay", "virtual"];

/** @param {string} name @param {string} title */
const profile = (name, title) => ({ name, title, kind: "profile", drivers: all, missing: "" });
/** @param {string} name @param {string} title */
const kernel = (name, title) => ({ name, title, kind: "kernel", drivers: ["real"], missing: "" });

/** @param {string} key @param {string} title @param {string} standard @param {string} example */
const linkKey = (key, title, standard, example, live = true) => ({
  key,
  title,
  default: standard,
  example,
  live,
});

/** @param {string} loss @param {string} burst */
const gigabit = (loss, burst) => ({
  forward: { rate: "1G", delay: "500us", queue: "1000p", loss, burst },
  backward: null,
});

export const catalogue = {
  transports: [
    profile("auto", "what Fulmar does unless told otherwise"),
    profile("lt-tcp", "LT-TCP (Hourt 2014)"),
    profile("ctcp", "Coded TCP"),
    profile("dfcp", "DFCP: digital fountain"),
    profile("dfcp-raptorq", "DFCP with RaptorQ"),
    profile("tcp-fec", "TCP-FEC"),
    profile("tcp-nc", "TCP/NC"),
    profile("tcp-nc-adaptive", "TCP/NC, adaptive"),
    profile("newreno", "NewReno"),
    profile("cubic", "CUBIC"),
    profile("no-cc", "no congestion control"),
    kernel("tcp-cubic", "the kernel's CUBIC"),
    kernel("tcp-bbr", "the kernel's BBR"),
    kernel("tcp-reno", "the kernel's Reno"),
    {
      name: "peer-kcptun",
      title: "kcptun",
      kind: "peer",
      drivers: ["real"],
      missing: "apt install kcptun iperf3",
    },
    { name: "peer-quinn:bbr", title: "quinn, BBR", kind: "peer", drivers: ["real"], missing: "" },
  ],
  path_presets: [
    { id: "lan", title: "LT-TCP, 1 Gb/s, 1 ms, 5 %, E=5", source: "Table 2.1", path: gigabit("5%", "5") },
    {
      id: "wan",
      title: "100 Mb/s, 20 ms, 1 %",
      source: "",
      path: { forward: { rate: "100M", delay: "10ms", loss: "1%" }, backward: null },
    },
  ],
  run_presets: [
    {
      id: "lt-tcp-and-tcp",
      title: "LT-TCP beside TCP",
      source: "LT-TCP thesis, 2.1",
      published: [],
      spec: {
        kind: "demo",
        driver: "real",
        transports: ["lt-tcp", "tcp-cubic"],
        path: { forward: { rate: "20M", delay: "10ms", loss: "5%", burst: "5" }, backward: null },
        amount: { bytes: 1 },
      },
    },
    {
      id: "auto-and-tcp",
      title: "auto beside CUBIC and BBR",
      source: "",
      published: [],
      spec: {
        kind: "demo",
        driver: "real",
        transports: ["auto", "tcp-cubic", "tcp-bbr"],
        path: { forward: { rate: "20M", delay: "10ms", loss: "5%", burst: "5" }, backward: null },
        amount: { bytes: 1 },
      },
    },
    {
      id: "table-2.1",
      title: "LT-TCP thesis, Tables 2.1 and 2.2: 5 %, E=5",
      source: "Hourt, LT-TCP thesis (RPI 2014)",
      published: [
        { transport: "lt-tcp", value: 9309, unit: "KiB/s", where: "Table 2.1" },
        { transport: "tcp-cubic", value: 612, unit: "KiB/s", where: "Table 2.2" },
      ],
      spec: {
        kind: "test",
        driver: "real",
        transports: ["lt-tcp", "tcp-cubic"],
        path: gigabit("5%", "5"),
        amount: { seconds: 5 },
        transfers: 20,
        drops_outliers: true,
      },
    },
  ],
  link_keys: [
    linkKey("rate", "Rate", "", "100M"),
    linkKey("delay", "Delay", "", "10ms"),
    linkKey("queue", "Queue", "1bdp", "100p", false),
    linkKey("loss", "Loss", "0%", "5%"),
    linkKey("burst", "Mean burst E", "none", "5"),
    linkKey("mark", "Marks", "0%", "2%"),
    linkKey("jitter", "Jitter", "0ms", "5ms"),
    linkKey("mark_threshold", "Marks from queue", "", "200p", false),
    linkKey("reorder", "Reordering", "0%", "1%"),
    linkKey("duplicate", "Duplicates", "0%", "1%"),
    linkKey("corrupt", "Corruption", "0%", "0.1%"),
    linkKey("blackout", "Blackout", "", "2s+500ms", false),
  ],
  traces: [],
};
