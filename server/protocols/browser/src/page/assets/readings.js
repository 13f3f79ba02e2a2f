// What /metrics said, reading by reading, and what is drawn of it.

// The families that the charts need; the page of metrics has more.
const FAMILIES = new Set([
  "nv_inference_request_success",
  "nv_inference_request_failure",
  "nv_inference_count",
  "muster_batch_rows_sum",
  "muster_batch_rows_count",
  "muster_request_duration_seconds_bucket",
  "muster_queue_duration_seconds_bucket",
  "muster_batch_rows_bucket",
  "muster_queue_depth",
  "muster_http_requests_total",
  "muster_grpc_requests_total",
  "process_cpu_seconds_total",
  "process_resident_memory_bytes",
]);

// The series of these families: `Map { family: [{ labels, value, key }] }`.
function readMetrics(text) {
  const families = new Map();
  for (const line of text.split("\n")) {
    const [, name, inside = "", value] = line.match(/^(\w+)(?:\{(.*)\})? (\S+)$/) ?? [];
    if (!FAMILIES.has(name)) continue;
    const labels = {};
    for (const [, key, text] of inside.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[key] = text.replace(/\\(.)/g, (_, it) => (it === "n" ? "\n" : it));
    }
    if (!families.has(name)) families.set(name, []);
    families.get(name).push({ labels, key: inside, value: Number(value) });
  }
  return families;
}

// The sum of the series of a family that fit.
function sum(families, name, fits) {
  return (families.get(name) ?? []).reduce((all, it) => (fits(it.labels) ? all + it.value : all), 0);
}

// How much a counter has grown. One that began anew has grown by what it is.
function growth(then, now, name, fits) {
  const before = new Map((then.get(name) ?? []).map((it) => [it.key, it.value]));
  return (now.get(name) ?? []).reduce((all, { labels, key, value }) => {
    if (!fits(labels)) return all;
    const was = before.get(key) ?? 0;
    return all + (value >= was ? value - was : value);
  }, 0);
}

// The buckets of a histogram that have grown: `[[upper bound, how many up to it]]`.
function buckets(then, now, name, fits) {
  const found = new Map();
  const before = new Map((then.get(name) ?? []).map((it) => [it.key, it.value]));
  for (const { labels, key, value } of now.get(name) ?? []) {
    if (!fits(labels)) continue;
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
    found.set(bound, (found.get(bound) ?? 0) + Math.max(0, value - (before.get(key) ?? 0)));
  }
  return [...found].sort(([a], [b]) => a - b);
}

// The bound of the bucket in which this share of all lies; null where the buckets are empty.
function bucketOf(steps, share) {
  const all = steps.at(-1)?.[1] ?? 0;
  const found = steps.findIndex(([, upTo]) => upTo >= share * all);
  return all === 0 ? null : steps[found][0] === Infinity ? (steps[found - 1]?.[0] ?? null) : steps[found][0];
}

// The value that this share of what is in the buckets does not exceed; null where they are empty.
function quantile(steps, share) {
  const all = steps.at(-1)?.[1] ?? 0;
  if (all === 0) return null;
  let low = 0,
    below = 0;
  for (const [bound, upTo] of steps) {
    if (upTo >= share * all) {
      if (bound === Infinity || upTo === below) return low;
      return low + ((bound - low) * (share * all - below)) / (upTo - below);
    }
    [low, below] = [bound, upTo];
  }
  return low;
}

// The charts: a name, a unit, and lines with their names.
const CHARTS = [
  {
    key: "rate",
    name: "Rate",
    unit: "a second",
    lines: [
      ["requests", "requests"],
      ["rows", "rows"],
    ],
  },
  {
    key: "latency",
    name: "Latency",
    unit: "ms",
    lines: [
      ["p50", "p50"],
      ["p99", "p99"],
      ["waits", "p99 in the queue"],
    ],
  },
  {
    key: "batches",
    name: "Batch sizes",
    unit: "rows",
    least: 2,
    lines: [
      ["mean", "mean"],
      ["large", "p99 at most"],
    ],
  },
  { key: "queue", name: "Queue", unit: "requests", least: 2, lines: [["waiting", "waiting"]] },
  {
    key: "errors",
    name: "Errors",
    unit: "a second",
    lines: [
      ["client", "4xx"],
      ["server", "5xx"],
      ["grpc", "gRPC"],
    ],
  },
  { key: "processor", name: "Processor", unit: "cores", lines: [["cores", "used by the server"]] },
];
// Of one model, failures have reasons in place of statuses.
const REASONS = [
  ["rejected", "refused"],
  ["canceled", "given up"],
  ["failed", "failed"],
];

const linesOf = (chart, model) => (chart.key === "errors" && model ? REASONS : chart.lines);

// What the charts show at a reading, seen from an earlier one.
function derive(then, now, model) {
  const seconds = (now.at - then.at) / 1000;
  const of = (labels) => model === "" || labels.model === model;
  const grown = (name, fits) => growth(then.families, now.families, name, fits);
  const each = (name, fits) => grown(name, fits) / seconds;
  const share = (name, part, scale) => {
    const found = quantile(buckets(then.families, now.families, name, of), part);
    return found === null ? null : found * scale;
  };
  const runs = grown("muster_batch_rows_count", of);
  const status = (first) => (labels) => labels.status?.startsWith(first);
  const because =
    (...reasons) =>
    (labels) =>
      of(labels) && reasons.includes(labels.reason);
  return {
    requests: each("nv_inference_request_success", of),
    rows: each("nv_inference_count", of),
    p50: share("muster_request_duration_seconds_bucket", 0.5, 1000),
    p99: share("muster_request_duration_seconds_bucket", 0.99, 1000),
    waits: share("muster_queue_duration_seconds_bucket", 0.99, 1000),
    // The two are counted one after the other: a reading between them is no batch of less than a row.
    mean: runs > 0 ? Math.max(1, grown("muster_batch_rows_sum", of) / runs) : null,
    large: bucketOf(buckets(then.families, now.families, "muster_batch_rows_bucket", of), 0.99),
    waiting: sum(now.families, "muster_queue_depth", of),
    client: each("muster_http_requests_total", status("4")),
    server: each("muster_http_requests_total", status("5")),
    grpc: each("muster_grpc_requests_total", (labels) => labels.code !== "OK"),
    rejected: each("nv_inference_request_failure", because("REJECTED")),
    canceled: each("nv_inference_request_failure", because("CANCELED")),
    failed: each("nv_inference_request_failure", because("BACKEND", "OTHER")),
    cores: each("process_cpu_seconds_total", () => true),
  };
}

const KEPT_FOR = 180_000;
// Counters are compared with a reading about so long ago: one second has too few requests for a p99.
const SEEN_FROM = 5_000;
const MOST_SERIES = 400_000;

// The readings of the last minutes.
class Readings {
  all = [];
  model = "";

  add(families, at) {
    this.all.push({ families, at, shown: null });
    const size = (it) => [...it.families.values()].reduce((count, series) => count + series.length, 0);
    const most = Math.max(8, Math.floor(MOST_SERIES / Math.max(1, size(this.all.at(-1)))));
    this.all = this.all.filter((it) => at - it.at <= KEPT_FOR).slice(-most);
    this.derived(this.all.length - 1);
  }

  // Shows one model, or all of them.
  of(model) {
    this.model = model;
    for (const reading of this.all) reading.shown = null;
  }

  derived(place) {
    const now = this.all[place];
    if (now.shown) return now.shown;
    let then = null;
    for (let at = place - 1; at >= 0; at--) {
      then = this.all[at];
      if (now.at - then.at >= SEEN_FROM) break;
    }
    now.shown = then ? derive(then, now, this.model) : {};
    return now.shown;
  }

  // `[{ at, values }]`, oldest first.
  get points() {
    return this.all.map((it, place) => ({ at: it.at, values: this.derived(place) }));
  }

  get memory() {
    return this.all.length > 0 ? sum(this.all.at(-1).families, "process_resident_memory_bytes", () => true) : 0;
  }
}
