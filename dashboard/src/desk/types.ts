// What the program says and takes: docs/internals/operator-api.md as types.

export type DriverName = "real" | "relay" | "virtual";
export type Status = "queued" | "running" | "done" | "stopped" | "failed";
export type TransferStatus = "complete" | "time" | "gave_up" | "stopped" | "failed" | "invalid";
/** Where a transfer is: the eight steps of the LT-TCP thesis, 2.1; 0 before the first. */
export type Step = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

export interface State {
  version: string;
  mode: "operator" | "controller";
  drivers: Driver[];
  agents: Agent[];
  runs: RunSummary[];
  running: string | null;
  queue: string[];
  results_folder: string;
  watchers: number;
}

export interface Driver {
  name: DriverName;
  available: boolean;
  missing: string;
  steerable: boolean;
  kernel_tcp: boolean;
}

export interface Agent {
  name: string;
  role: "sender" | "receiver" | "spare";
  address: string;
  data_address: string;
  key: string;
  connected: boolean;
  since_s: number;
}

export interface Progress {
  done: number;
  total: number;
  elapsed_s: number;
  left_s: number | null;
}

export interface RunSummary {
  id: string;
  title: string;
  kind: "test" | "demo";
  driver: DriverName;
  transports: string[];
  status: Status;
  error: string | null;
  progress: Progress;
  created_unix_s: number;
  steps: Step;
}

export interface Sample {
  flow: number;
  transfer: number;
  t: number;
  received_bytes: number;
  sequence_bytes: number;
  goodput_mbps: number;
  window_bytes: number;
  in_flight_bytes: number;
  rtt_ms: number;
  pacing_mbps: number | null;
  queue_bytes: number;
  lost_packets: number;
  dropped_packets: number;
  marked_packets: number;
  offered_packets: number;
  loss: number;
  loss_estimate: number | null;
  repair_packets: number;
  redundancy: number | null;
}

export interface Link {
  rate: string;
  delay: string;
  queue: string;
  loss: string;
  burst: string;
  mark: string;
  mark_threshold: string;
  jitter: string;
  reorder: string;
  duplicate: string;
  corrupt: string;
  blackout: string;
}

export type LinkName = keyof Link;

export interface Path {
  forward: Partial<Link>;
  backward: Partial<Link> | null;
}

export type Amount = { bytes: number } | { seconds: number };

export interface Spec {
  kind: "test" | "demo";
  title?: string;
  preset?: string;
  driver: DriverName;
  transports: string[];
  path: Path;
  amount: Amount;
  time_max_s?: number;
  transfers?: number;
  order?: "in_turn" | "together";
  seed?: number;
  ecn?: boolean;
  drops_outliers?: boolean;
  loss_free_handshake?: boolean;
  image?: string;
}

export interface Transfer {
  flow: number;
  transfer: number;
  seed: number;
  status: TransferStatus;
  error: string | null;
  received_bytes: number;
  time_s: number;
  goodput_mbps: number;
  wire_ratio: number | null;
  lost_packets: number;
  offered_packets: number;
  repair_packets: number;
}

export interface Summary {
  n: number;
  mean: number;
  sd: number;
  ci95: number;
  median: number;
  min: number;
  max: number;
}

export interface Measures {
  time_s: Summary | null;
  goodput_mbps: Summary | null;
}

export interface Statistics {
  flow: number;
  all: Measures;
  kept: Measures;
  left_out: number[];
}

export interface FlowState {
  flow: number;
  transfer: number;
  status: "waiting" | "running" | TransferStatus;
  received_bytes: number;
  total_bytes: number | null;
  t: number;
}

export interface Run extends RunSummary {
  spec: Required<Spec>;
  transfers: Transfer[];
  statistics: Statistics[];
  flows: FlowState[];
  folder: string;
}

export interface TransportChoice {
  name: string;
  title: string;
  kind: "profile" | "kernel" | "peer";
  drivers: DriverName[];
  missing: string;
}

export interface LinkKey {
  key: LinkName;
  title: string;
  default: string;
  example: string;
  live: boolean;
}

export interface PathPreset {
  id: string;
  title: string;
  source: string;
  path: Path;
}

export interface Published {
  transport: string;
  value: number;
  unit: "KiB/s";
  where: string;
}

export interface RunPreset {
  id: string;
  title: string;
  source: string;
  spec: Spec;
  published: Published[];
}

export interface Catalogue {
  transports: TransportChoice[];
  path_presets: PathPreset[];
  run_presets: RunPreset[];
  link_keys: LinkKey[];
  traces: { name: string; title: string; rate: string; loss: string }[];
}

export interface Loaded {
  name: string;
  title: string;
  source: string;
  remark: string;
  specs: { label: string; spec: Spec }[];
  notes: string[];
}

export interface Picture {
  id: string;
  name: string;
  content_type: string;
  bytes: number;
  width: number | null;
  height: number | null;
  progressive: boolean;
}

export type Verdict = "reproduced" | "in kind" | "open" | "differs" | "not comparable" | "not measured";

export interface Results {
  /** How many of a source's tables and figures have each verdict that occurs. */
  sources: { id: string; title: string; counts: Partial<Record<Verdict, number>> }[];
  rows: ResultRow[];
}

export interface ResultRow {
  id: string;
  source: string;
  where: string;
  title: string;
  verdict: Verdict;
  /** False where the same runs and claims count with another row. */
  counted: boolean;
  unit: string;
  cells: ResultCell[];
  /** Claims that do not hold. */
  not_held: string[];
  /** Claims that are neither held nor failed. */
  undecided: string[];
  explanation: string;
  command: string;
}

export interface ResultCell {
  at: Record<string, string>;
  published: number | null;
  min: number | null;
  max: number | null;
  measured: Summary | null;
  ratio: number | null;
  command: string | null;
}
