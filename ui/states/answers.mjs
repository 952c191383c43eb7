// @ts-check
// Invented answers of the API, checked against its reference. `now` is far from the browser's clock on purpose.
/** @typedef {import("../src/types").StreamRow} StreamRow */
export const NOW = "2031-03-01T12:00:00Z";
/** @param {number} seconds */
const before = (seconds) => new Date(Date.parse(NOW) - seconds * 1000).toISOString();

const driver = { name: "main", backend: "subprocess", host: "lake-1", handle: null };
/** @type {(id: string, more?: Partial<StreamRow>) => StreamRow} */
export const row = (id, more = {}) => ({
  id, dag_id: `stream__${id}`, state: "healthy", why: "batches land", since: before(10_800), sink: `iceberg shop.${id}`,
  tables: [`shop.${id}`], owner: "shop", tags: ["core"], desired: "running", generation: 3, pending_generation: null,
  driver, lag_records: 0, lag_s: 0, lag_age_s: 2, lag_unknown: null, lag_trend: "none", freshness_limit_s: 120, committed_at: before(4), commit_age_s: 4,
  input_rows_per_second: 812.5, processed_rows_per_second: 930.2, batch_duration_s: 0.84, trigger_s: 5,
  restarts_24h: 0, ...more,
});

const ROWS = [
  row("orders", { state: "blocked", why: "batch 41 failed 3 times: LW-2103 a rule has no column amount", since: before(1_500),
    lag_records: 48_210, lag_s: 1_490, commit_age_s: 1_500, committed_at: before(1_500), restarts_24h: 3 }),
  row("payments", { state: "lagging", why: "the lag grows since 12 min", lag_records: 9_000, lag_s: 300, lag_trend: "growing" }),
  row("refunds", { state: "starting", why: "the first batch has not landed", lag_records: null, lag_s: null }),
  row("visits"),
  row("closed", { state: "stopped", why: "stopped on request", desired: "stopped" }),
];
/** @param {StreamRow[]} rows */
const countsOf = (rows) => Object.fromEntries([...new Set(rows.map((one) => one.state))]
  .map((state) => [state, rows.filter((one) => one.state === state).length]));

/** @type {(rows?: StreamRow[], more?: object) => import("../src/types").Streams} */
export const streams = (rows = ROWS, more = {}) => ({
  now: NOW, age_s: 1, stale: null, unreadable: [], incidents: [], supervision: { state: "present", why: null, next: null },
  headline: { level: "trouble", text: "orders is BLOCKED since 11:35 UTC (25 min): batch 41 failed 3 times" },
  counts: countsOf(rows), streams: rows, ...more,
});

/** @type {(id: string, more?: object) => import("../src/types").StreamDetail} */
export const stream = (id, more = {}) => ({
  document: {
    ...(ROWS.find((one) => one.id === id) ?? row(id)), now: NOW,
    driver: { ...driver, pid: 4711, heartbeat: before(1), launched_at: before(9_000), exit_code: null,
      app_id: "local-1", log: "/var/log/main", beside: ["visits"] },
    data: { lost: "no", text: "the position is in the table; nothing after it was committed", but: null },
    batch_id: 40, seq: 40, snapshot_id: "7234567890123456789", complete_through: before(1_500), lag_trend: "growing",
    lag_at_least: null, lag_per_second: 31, next_batch: null, query_id: "q", run_id: "r", safe_to: null,
    held_records: 0, held_s: null, catch_up_s: null, arriving_per_second: 31, event_time_lag_s: 4,
    durations_s: { triggerExecution: 0.84, addBatch: 0.5, walCommit: 0.1 }, watermark: null, state_rows: null,
    state_bytes: null, state_disk_bytes: null, late_dropped: 7, late_kept: 12,
    late_tables: ["shop.orders_late"], late_text: "12 kept in shop.orders_late, 7 dropped", attempts: 3, next_attempt_at: null, hold_until: null,
    at_risk: true, at_risk_in_s: 86_400, source_retention_s: 604_800, stable_generation: 2,
    differs: ["limits"],
    failure: { class: "data", error: "LW-2103 a rule has no column amount\n<b>not markup</b>", batch_id: 41, offsets: null,
      at: before(1_500) },
    unsupervised: null,
    incident: { id: 12, opened_at: before(1_400), text: "orders is blocked; it closes by itself when that is over" },
    changed: [
      { at: before(7_200), what: "deploy", text: "generation 3 by ada", times: 1, first: null },
      { at: before(1_500), what: "driver", text: "restarted", times: 3, first: before(1_600) },
    ],
    partitions: [0, 1].map((partition) => ({ source: "orders", topic: "orders", partition, position: 100,
      end: 100 + 40_000 * partition, lag_records: 40_000 * partition, held_records: 0 })),
    links: { spark_ui: "http://lake-1:4040", log: "/var/log/main/driver.log", runbook: "docs/runbooks/on-call.md" },
    next: `lakeward streams skip-batch ${id} --batch 41 --comment WHY`, next_text: "skip the failed batch",
    next_effect: "its rows go to quarantine", log_tail: ["INFO one", "ERROR two"], ...more,
  },
  block: [`${id} is BLOCKED`, "  Data lost? NO"],
  actions: [
    { op: "skip_batch", title: "Skip the failed batch", primary: true, needs: ["batch"], approval: true },
    { op: "stop", title: "Stop at a batch boundary", primary: false, needs: [], approval: false },
  ],
  generations: [
    { generation: 3, created_at: before(7_200), author: "ada", state: "running", failure: null, changed: [
      "trigger.every: 10s → 5s", "transform.sql: 3 lines added, 1 removed", "limits.freshness: 2m (added)",
      "code shop.rules: changed",
    ] },
    { generation: 2, created_at: before(90_000), author: "bob", state: "stable", failure: null, changed: [] },
  ],
  age_s: 1, stale: null,
});

/** @type {import("../src/types").Batches} */
export const batches = { stream: "orders", batches: Array.from({ length: 60 }, (_, number) => ({
  seq: 40 - number, batch_id: 40 - number, generation: 3, snapshot_id: null, committed_at: before(1_500 + 120 * number),
  duration_s: 0.8 + (number % 7) / 10, consumed: 500, landed: 480 + 10 * (number % 5), quarantined: number % 11 ? 0 : 20,
  filtered: 0, late_dropped: 0, late_kept: 0, replayed: false,
  phases: number === 20 ? null : { triggerExecution: 0.9 + (number % 7) / 10, addBatch: 0.7 + (number % 7) / 10,
    stage: 0.5 + (number % 7) / 12, publish: 0.12 + (number % 3) / 50, walCommit: 0.03, commitOffsets: 0.04,
    latestOffset: 0.02, queryPlanning: 0.05 },
})) };

/** @type {import("../src/types").LagHistory} */
export const lag = { stream: "orders", now: NOW, moments: Array.from({ length: 120 }, (_, number) => ({
  at: before(180 * (120 - number)), lag_records: number > 60 && number < 64 ? null : Math.round(400 * Math.exp(number / 25)),
  lag_s: 5 + number, state_rows: 9_000 + 12 * number, state_bytes: 900_000,
})) };

/** @param {number} files */
const figures = (files) => ({ files, small_files: files - 4, delete_files: 3, manifests: 9, snapshots: 120,
  size_bytes: 5e9, records: 12_000_000 });
/** @type {import("../src/types").TableAction} */
const action = {
  id: 7, action: "compact", result: "done", verified: true, why: "212 small files", before: figures(216), after: figures(12),
  started_at: before(90_000), finished_at: before(89_940), duration_s: 60, cpu_s: 41.5,
};
/** @type {import("../src/types").TableRow} */
const table = {
  table: "shop.orders", format: "iceberg", location: "s3://lake/shop/orders", observed_at: before(60), figures: figures(80),
  streams: ["orders"], due_since: before(600), hold_until: before(-3_600), expiry_hold: "an unknown reader holds snapshot 5",
  pins: [
    { kind: "reader", who: "stream totals", stream: "totals", why: "it has read up to snapshot 5; it resumes there until it is retired",
      since: before(400_000), snapshots: 96, bytes: 8.4e9, next: "lakeward streams status totals   it catches up, or: lakeward deploy --retire totals" },
    { kind: "tag", who: "tag eod_2031-02-20", stream: null, why: "it is on snapshot 3", since: before(800_000), snapshots: 1, bytes: 2.1e9,
      next: "it ends by itself at 2031-04-01 00:00:00 UTC" },
  ], verdict: "hold", last_action: action,
};
/** @type {import("../src/types").Tables} */
export const tables = { now: NOW, age_s: 1, stale: null, tables: [table] };
/** @type {import("../src/types").TableDetail} */
export const tableOf = {
  now: NOW, table, actions: [action],
  plan: { at: before(60), actions: [{ action: "compact", why: "76 small files" }],
    not_planned: [{ action: "expire", why: "held by a person", next_at: null }] },
  savings: ["204 files fewer since 2031-02-28 11:00 UTC: a full scan sends that many requests fewer"],
  troubles: [{ cause: "Snapshot expiry waits for a person: an unknown reader holds snapshot 5", data: "NOT KNOWN: a verification failed",
    next: "lakeward tables unhold shop.orders" }],
  health: [216, 12, 40, 80].map((files, number) => ({ at: before(180_000 - 50_000 * number), figures: figures(files) })),
};

const failing = { check: "c1", expectation: "expect_column_values_to_not_be_null", severity: "critical", state: "fail",
  unexpected_count: 12 };
/** @type {import("../src/types").Quality} */
export const quality = { now: NOW, age_s: 1, stale: null, tables: [{
  table: "shop.orders", verdict: "hold", at: before(900), run: "r2", to_snapshot: 12, verified_snapshot: 9,
  first_bad_snapshot: 11, note: "", failing: [failing],
  unproven: { snapshots: 3, rows: 1_200, since: before(1_500), limit_s: 900, error: "" } }] };
/** @type {import("../src/types").QualityDetail} */
export const qualityOf = {
  table: "shop.orders", now: NOW, incident: null, landed: { 11: [{ stream: "orders", text: "stream orders batch 41, offsets orders/0 3900 to 4200" }] },
  runs: [{ run: "r2", at: before(900), verdict: "hold", scope: "increment", from_snapshot: 9, to_snapshot: 12,
    first_bad_snapshot: 11, verified_snapshot: 9, spark_jobs: 3, duration_s: 4.2 }],
  checks: [{ ...failing, kwargs: { column: "amount" }, since: before(900), runs: 3, failures: 1, errors: 0,
    failing_since: { run: "r2", at: before(900), to_snapshot: 12, snapshot: 11, noun: "snapshot" }, recovered: null,
    points: ["pass", "pass", "fail"].map((state, number) => ({ at: before(2_700 - 900 * number), state,
      unexpected_count: state === "fail" ? 12 : 0, rows: 100 })), direction: "growing" }],
  cost: { runs: 3, spark_jobs: 9, duration_s: 12.6, cpu_s: 1.5 },
  newest: /** @type {any} */ ({ verdict: "hold", note: "12 rows without an amount", next: "lakeward quality show shop.orders",
    checks: [{ ...failing, id: "c1", observed: null, sample: [{ order_id: "***", amount: null }] }] }),
};

/** @type {import("../src/types").Audit} */
export const audit = { now: NOW, changes: [
  { id: 2, at: before(600), scope: "stream", name: "orders", change: "restart", author: "ada", comment: "after the fix",
    detail: { generation: 3 } },
  { id: 1, at: before(90_000), scope: "table", name: "shop.orders", change: "hold", author: "bob", comment: "", detail: {} },
] };
/** @type {import("../src/types").Plan} */
export const plan = { text: "skip batch 41 of orders", lines: ["500 rows to shop.orders_quarantine"], key: "k1", nothing: "",
  approval: true };
