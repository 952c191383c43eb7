// The documents of the API: the fields that the page shows. Reference: docs/reference/openapi.json.

/** An integer; text where JavaScript could not hold it exactly, e.g. a snapshot id. */
export type Integer = number | string;
export type Time = string;

export interface Aged {
  now: Time;
  age_s?: number;
  stale?: string | null;
}

export interface StreamRow {
  id: string;
  dag_id: string;
  state: string;
  why: string;
  since: Time;
  sink: string | null;
  tables: string[];
  owner: string | null;
  tags: string[];
  desired: string;
  generation: number;
  pending_generation: number | null;
  driver: { name: string; backend: string | null; host: string | null };
  lag_records: number | null;
  lag_s: number | null;
  lag_unknown: string | null;
  lag_age_s: number | null;
  lag_trend?: string | null;
  freshness_limit_s: number | null;
  committed_at: Time | null;
  commit_age_s: number | null;
  input_rows_per_second: number | null;
  processed_rows_per_second: number | null;
  batch_duration_s: number | null;
  trigger_s: number | null;
  restarts_24h: number;
}

export interface Headline {
  level: "empty" | "ok" | "warning" | "trouble";
  text: string;
}

export interface Streams extends Aged {
  supervision: { state: string; why: string | null; next: string | null };
  headline: Headline;
  counts: Record<string, number>;
  streams: StreamRow[];
  unreadable: string[];
}

export interface Action {
  op: string;
  title: string;
  primary: boolean;
  needs: string[];
  approval: boolean;
}

export interface Changed {
  at: Time;
  what: string;
  text: string;
  times: number;
  first: Time | null;
}

export interface Partition {
  source: string;
  topic: string;
  partition: number;
  position: Integer | null;
  end: Integer;
  lag_records: number;
  held_records: number;
}

export interface StreamDocument extends StreamRow {
  now: Time;
  data: { lost: string; text: string; but: string | null };
  batch_id: Integer | null;
  seq: Integer | null;
  snapshot_id: Integer | null;
  complete_through: string | null;
  driver: StreamRow["driver"] & {
    pid: number | null;
    heartbeat: Time | null;
    launched_at: Time | null;
    exit_code: number | null;
    app_id: string | null;
    beside: string[];
  };
  stable_generation: number | null;
  differs: string[];
  attempts: number;
  next_attempt_at: Time | null;
  hold_until: Time | null;
  late_dropped: number | null;
  late_kept: number | null;
  late_tables: string[];
  late_text: string | null;
  at_risk: boolean | null;
  at_risk_in_s: number | null;
  source_retention_s: number | null;
  event_time_lag_s: number | null;
  arriving_per_second: number | null;
  catch_up_s: number | null;
  durations_s: Record<string, number>;
  watermark: string | null;
  state_rows: number | null;
  state_bytes: number | null;
  failure: { class: string | null; error: string | null; batch_id: Integer | null; at: Time | null } | null;
  unsupervised: string | null;
  incident: { id: number; opened_at: Time; text: string } | null;
  changed: Changed[];
  partitions: Partition[];
  links: { spark_ui: string | null; log: string | null; runbook: string };
  next: string | null;
  next_text: string;
  next_effect: string;
  log_tail: string[];
  unanswered?: string[];
}

export interface Generation {
  generation: number;
  created_at: Time;
  author: string;
  state: string;
  failure: string | null;
}

export interface StreamDetail {
  document: StreamDocument;
  block: string[];
  actions: Action[];
  generations: Generation[];
  age_s: number;
  stale: string | null;
}

export interface Batch {
  seq: Integer | null;
  batch_id: number;
  generation: number;
  snapshot_id: Integer | null;
  committed_at: Time;
  duration_s: number | null;
  consumed: number | null;
  landed: number | null;
  quarantined: number | null;
  filtered: number | null;
  late_dropped: number | null;
  late_kept: number | null;
  replayed: boolean;
}

export type Figures = Record<string, number>;

export interface TableAction {
  id: number;
  action: string;
  result: string | null;
  verified: boolean | null;
  why: string;
  before: Figures;
  after: Figures;
  started_at: Time;
  finished_at: Time | null;
  duration_s: number | null;
  cpu_s: number | null;
}

export interface TableRow {
  table: string;
  format: string;
  location: string | null;
  observed_at: Time | null;
  figures: Figures;
  streams: string[];
  due_since: Time | null;
  hold_until: Time | null;
  expiry_hold: string | null;
  verdict: string | null;
  last_action: TableAction | null;
}

export interface Tables extends Aged {
  tables: TableRow[];
}

export interface TableDetail {
  now: Time;
  table: TableRow;
  actions: TableAction[];
  plan: {
    at: Time;
    actions?: { action: string; why: string }[];
    not_planned?: { action: string; why: string; next_at: Time | null }[];
  } | null;
  health: { at: Time; figures: Figures }[];
}

export interface CheckedTable {
  table: string;
  verdict: string;
  at: Time;
  run: string;
  to_snapshot: Integer | null;
  verified_snapshot: Integer | null;
  first_bad_snapshot: Integer | null;
  note: string;
  failing: { check: string; expectation: string; severity: string; state: string; unexpected_count: number | null }[];
}

export interface Quality extends Aged {
  tables: CheckedTable[];
}

export interface Trend {
  check: string;
  expectation: string;
  kwargs: Record<string, unknown>;
  severity: string;
  state: string;
  since: Time;
  failing_since: { at: Time; snapshot: Integer | null; noun: string } | null;
  recovered: { at: Time; failed_s: number } | null;
  direction: string | null;
  points: { at: Time; state: string; unexpected_count: number | null }[];
}

export interface QualityDetail {
  table: string;
  now: Time;
  runs: {
    run: string;
    at: Time;
    verdict: string;
    scope: string;
    to_snapshot: Integer | null;
    first_bad_snapshot: Integer | null;
    verified_snapshot: Integer | null;
    spark_jobs: number | null;
    duration_s: number | null;
  }[];
  checks: Trend[];
  cost: { runs: number; spark_jobs: number; duration_s: number; cpu_s: number };
  newest: {
    verdict: string;
    note: string;
    next: string;
    checks: { id: string; expectation: string; severity: string; state: string; unexpected_count: number | null;
      sample: unknown[] }[];
  };
}

export interface Change {
  id: number;
  at: Time;
  scope: string;
  name: string;
  change: string;
  author: string;
  comment: string;
  detail: unknown;
}

export interface Audit {
  now: Time;
  changes: Change[];
}

export interface Plan {
  text: string;
  lines: string[];
  key: string;
  nothing: string;
  approval: boolean;
}

export interface ApiError {
  code: string;
  what: string;
  why: string;
  next: string;
}
