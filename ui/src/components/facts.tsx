// The figures of one stream in words, each only where there is something to say.
import { DataList } from "@chakra-ui/react";
import type { ReactNode } from "react";

import { count, exact, moment, rate, seconds, span, within } from "../format";
import type { StreamDocument, Time } from "../types";
import { When } from "./section";

export function Facts({ it }: { it: StreamDocument }) {
  return (
    <DataList.Root orientation="horizontal" size="sm" gap="1" aria-label="Figures">
      {facts(it).filter(([, value]) => value !== null && value !== "").map(([name, value]) => (
        <DataList.Item key={name}>
          <DataList.ItemLabel minW="10rem">{name}</DataList.ItemLabel>
          <DataList.ItemValue>{value}</DataList.ItemValue>
        </DataList.Item>
      ))}
    </DataList.Root>
  );
}

export function facts(it: StreamDocument): [name: string, value: ReactNode][] {
  const when = (at: Time | null) => (at === null ? null : <When at={at} now={it.now} />);
  return [
    ["Writes to", it.sink],
    ["Last commit", it.committed_at && <>{when(it.committed_at)}{it.snapshot_id == null ? "" : `, snapshot ${it.snapshot_id}`}</>],
    ["Batch", it.batch_id == null ? null : `${it.batch_id}${it.seq == null ? "" : `, sequence ${it.seq}`}`],
    ["Lag", it.lag_records == null ? it.lag_unknown && `not known: ${it.lag_unknown}`
      : `${count(it.lag_records)} records${trend(it)}`],
    ["Behind, of limit", it.lag_s == null ? null : within(it.lag_s, it.freshness_limit_s)],
    ["Rows/s in → out", `${rate(it.input_rows_per_second)} → ${rate(it.processed_rows_per_second)}`],
    ["Batch / trigger", `${seconds(it.batch_duration_s)} / ${seconds(it.trigger_s)}`],
    ["Failures 24 h", count(it.restarts_24h)],
    ["Next attempt", it.next_attempt_at && `number ${it.attempts}, at ${exact(it.next_attempt_at)}`],
    ["Held until", it.hold_until && exact(it.hold_until)],
    ["Generation", generation(it)],
    ["Driver", driver(it)],
    ["Heartbeat", when(it.driver.heartbeat)],
    ["Watermark", moment(it.watermark)],
    ["Complete through", moment(it.complete_through)],
    ["Late records", it.late_text],
    ["Kept by the source", it.source_retention_s == null ? null : retention(it)],
    ["Owner", [it.owner, ...it.tags].filter(Boolean).join(", ")],
  ];
}

const trend = (it: StreamDocument) => (it.lag_trend && it.lag_trend !== "none" ? `, ${it.lag_trend}` : "");

function generation(it: StreamDocument): string {
  const pending = it.pending_generation === null ? "" : `; ${it.pending_generation} waits for an upgrade`;
  const stable = it.stable_generation === null || it.stable_generation === it.generation
    ? "" : `; stable: ${it.stable_generation}`;
  const differs = it.differs.length ? `; differs in ${it.differs.join(", ")}` : "";
  return `${it.generation}${pending}${stable}${differs}`;
}

function driver({ driver: its }: StreamDocument): string {
  const host = its.host === null ? "" : ` on ${its.host}${its.pid === null ? "" : `, process ${its.pid}`}`;
  const ended = its.exit_code === null ? "" : `; it ended with code ${its.exit_code}`;
  const beside = its.beside.length ? `; also runs ${its.beside.join(", ")}` : "";
  return `${its.name}${its.backend === null ? "" : ` (${its.backend})`}${host}${ended}${beside}`;
}

function retention(it: StreamDocument): string {
  const left = it.at_risk && it.at_risk_in_s != null ? `; what waits is removed in ${span(it.at_risk_in_s)}` : "";
  return `for ${span(it.source_retention_s)}${left}`;
}
