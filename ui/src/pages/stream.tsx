// One stream: what is wrong, whether data is lost, what to do, and what happened before.
import { Box, Button, Flex, Link, SimpleGrid, Stack, Table, Text } from "@chakra-ui/react";

import { useState } from "react";

import { base, STREAM_DAG, useBatches, useLag, useStream } from "../api";
import { State } from "../components/badge";
import { type Mark, TimeChart } from "../components/chart";
import { Facts } from "../components/facts";
import { Frame, Notice } from "../components/frame";
import { List } from "../components/list";
import { Actions } from "../components/operate";
import { Command, Lines, Section, When } from "../components/section";
import { bytes, count, exact, longestPhases, number, seconds, skew, span } from "../format";
import type { Batch, Integer, LagHistory, Partition, StreamDetail, StreamDocument } from "../types";

const MARKED = new Set(["deploy", "driver", "people", "maintenance", "check"]);
const LOST = { no: "success", "at risk": "warning", yes: "error" } as const;

export function Stream({ id }: { id: string }) {
  return <Frame query={useStream(id)}>{(detail) => <Detail detail={detail} />}</Frame>;
}

function Detail({ detail }: { detail: StreamDetail }) {
  const it = detail.document;
  const values: Record<string, string> = it.failure?.batch_id == null ? {} : { batch: String(it.failure.batch_id) };
  return (
    <Box pb="8">
      <Stack gap="3">
        <Flex gap="2" align="center" wrap="wrap">
          <State value={it.state} />
          <Text>{it.why}</Text>
          <Text color="fg.muted" title={exact(it.since)}>for {span((Date.parse(it.now) - Date.parse(it.since)) / 1000)}</Text>
        </Flex>
        <Lost data={it.data} />
        {it.unsupervised ? <Notice level="error" title="Nobody supervises the streams">{it.unsupervised}</Notice> : null}
        {it.incident ? (
          <Notice level="warning" title={`Open incident ${it.incident.id}, since ${exact(it.incident.opened_at)}`}>
            {it.incident.text}
          </Notice>
        ) : null}
        {it.unanswered?.map((line) => <Notice key={line} level="warning" title={line} />)}
        <Box>
          <Text fontWeight="semibold">Next: {it.next_text === it.next ? "" : it.next_text || "nothing to do"}</Text>
          {it.next_effect ? <Text color="fg.muted">{it.next_effect}</Text> : null}
          {it.next ? <Command text={it.next} /> : null}
        </Box>
        <Actions dag={STREAM_DAG + it.id} actions={detail.actions} values={values} />
        <Links it={it} />
      </Stack>
      <Section title="On-call report"><Lines lines={detail.block} /></Section>
      <Section title="Figures"><Facts it={it} /></Section>
      {it.failure?.error ? (
        <Section title={`Last failure: ${it.failure.class ?? "unclassified"}`}>
          <Text color="fg.muted" mb="1">
            <When at={it.failure.at} now={it.now} />
            {it.failure.batch_id == null ? "" : `, batch ${it.failure.batch_id}`}
          </Text>
          <Lines lines={it.failure.error.split("\n")} />
        </Section>
      ) : null}
      <Section title="What happened in the last hours, newest first"><Timeline it={it} /></Section>
      <Lag id={it.id} it={it} />
      <History id={it.id} it={it} />
      <Section title="The newest batch, by phase"><Phases durations={it.durations_s} /></Section>
      {it.partitions.length ? <Section title="Offsets by partition"><Partitions it={it} /></Section> : null}
      <Section title="Generations">
        <List label="Generations" rows={detail.generations} id={(row) => String(row.generation)} columns={[
          { title: "Generation", number: true, cell: (row) => row.generation },
          { title: "State", cell: (row) => <State value={row.state} /> },
          { title: "Deployed", cell: (row) => <When at={row.created_at} now={it.now} /> },
          { title: "By", cell: (row) => row.author },
          { title: "Changed", cell: (row) => <Changed lines={row.changed} /> },
          { title: "Failure", cell: (row) => row.failure ?? "" },
        ]} />
      </Section>
      {it.log_tail.length ? <Section title="Last lines of the driver's log"><Lines lines={it.log_tail} /></Section> : null}
    </Box>
  );
}

function Lost({ data }: { data: StreamDocument["data"] }) {
  const level = LOST[data.lost as keyof typeof LOST] ?? "warning";
  return <Notice level={level} title={`Data lost? ${data.lost.toUpperCase()}${data.but ? `, but ${data.but}` : ""}`}>{data.text}</Notice>;
}

function Links({ it }: { it: StreamDocument }) {
  return (
    <Flex gap="4" wrap="wrap" fontSize="sm">
      <Link href={`${base()}dags/${encodeURIComponent(STREAM_DAG + it.id)}`}>Dag and its runs</Link>
      {it.links.spark_ui ? <Link href={it.links.spark_ui} target="_blank" rel="noreferrer">Spark UI</Link> : null}
      <Text color="fg.muted">Runbook: {it.links.runbook}</Text>
      {it.links.log ? <Text color="fg.muted">Driver log: {it.links.log}</Text> : null}
    </Flex>
  );
}

function Timeline({ it }: { it: StreamDocument }) {
  if (it.changed.length === 0) return <Text color="fg.muted">Nothing but batches.</Text>;
  return (
    <Table.Root size="sm" aria-label="Timeline">
      <Table.Body>
        {[...it.changed].reverse().map((item) => (
          <Table.Row key={`${item.at}${item.what}${item.text}`}>
            <Table.Cell><When at={item.at} now={it.now} /></Table.Cell>
            <Table.Cell>{item.what}</Table.Cell>
            <Table.Cell>{item.text}{Number(item.times) > 1 ? ` (${item.times} times)` : ""}</Table.Cell>
          </Table.Row>
        ))}
      </Table.Body>
    </Table.Root>
  );
}

/** The lines of a generation's difference, the first three until more are wanted. */
function Changed({ lines }: { lines: string[] }) {
  const [whole, setWhole] = useState(false);
  const shown = whole ? lines : lines.slice(0, 3);
  return (
    <Box>
      {shown.map((line) => <Text key={line} fontFamily="mono" fontSize="xs">{line}</Text>)}
      {lines.length > shown.length ? (
        <Button size="xs" variant="plain" px="0" onClick={() => setWhole(true)}>{lines.length - shown.length} more</Button>
      ) : null}
    </Box>
  );
}

/** What happened while batches landed: restarts, deploys, maintenance, failed checks. */
function marksSince(it: StreamDocument, first: string): Mark[] {
  return it.changed
    .filter((item) => MARKED.has(item.what) && item.at >= first)
    .map((item) => ({ at: Date.parse(item.at), text: item.what }));
}

const SPANS = [1, 6, 24, 48];

function Lag({ id, it }: { id: string; it: StreamDocument }) {
  const [hours, setHours] = useState(6);
  return (
    <Section title="Lag over time">
      <Flex gap="1" align="center" role="group" aria-label="Time span" mb="2">
        {SPANS.map((span) => (
          <Button key={span} size="xs" variant={span === hours ? "solid" : "outline"} aria-pressed={span === hours}
            onClick={() => setHours(span)}>{span} h</Button>
        ))}
      </Flex>
      <Frame query={useLag(id, hours)}>{({ moments }) => <LagCharts moments={moments} it={it} />}</Frame>
    </Section>
  );
}

function LagCharts({ moments, it }: { moments: LagHistory["moments"]; it: StreamDocument }) {
  const first = moments[0];
  if (first === undefined) {
    return <Text color="fg.muted">Nothing was recorded in this time. A driver records once a minute.</Text>;
  }
  const points = (name: "lag_records" | "lag_s" | "state_rows") =>
    moments.map((moment) => ({ x: Date.parse(moment.at), y: number(moment[name]) }));
  const marks = marksSince(it, first.at);
  const charts = [
    { title: "Records that wait", unit: "records", label: "lag", token: "blue.500", name: "lag_records" },
    { title: "Age of the oldest waiting record", unit: "seconds", label: "lag", token: "blue.500", name: "lag_s",
      limit: it.freshness_limit_s ? { at: it.freshness_limit_s, text: "freshness limit" } : undefined },
    { title: "State", unit: "rows", label: "state", token: "purple.500", name: "state_rows" },
  ] as const;
  return (
    <SimpleGrid columns={{ base: 1, lg: 2 }} gap="4">
      {charts.filter(({ name }) => name !== "state_rows" || moments.some((moment) => moment.state_rows !== null)).map((chart) => (
        <Box key={chart.name}>
          <Text color="fg.muted" fontSize="sm">{chart.title}</Text>
          <TimeChart title={chart.title} unit={chart.unit} marks={marks} limit={"limit" in chart ? chart.limit : undefined}
            series={[{ label: chart.label, token: chart.token, points: points(chart.name) }]} />
        </Box>
      ))}
    </SimpleGrid>
  );
}

function History({ id, it }: { id: string; it: StreamDocument }) {
  return <Frame query={useBatches(id)}>{(data) => <BatchCharts batches={[...data.batches].reverse()} it={it} />}</Frame>;
}

function BatchCharts({ batches, it }: { batches: Batch[]; it: StreamDocument }) {
  const first = batches[0];
  if (first === undefined) return <Section title="Batches"><Text color="fg.muted">No batch has landed yet.</Text></Section>;
  const marks = marksSince(it, first.committed_at);
  const points = (value: (batch: Batch) => Integer | null) =>
    batches.map((batch) => ({ x: Date.parse(batch.committed_at), y: number(value(batch)) }));
  return (
    <SimpleGrid columns={{ base: 1, lg: 2 }} gap="4">
      <Section title={`Rows of the last ${batches.length} batches`}>
        <TimeChart title="Rows by batch" unit="rows" marks={marks} series={[
          { label: "landed", token: "green.500", points: points((batch) => batch.landed) },
          { label: "quarantined", token: "orange.500", points: points((batch) => batch.quarantined) },
        ]} />
      </Section>
      <Section title="Duration of each batch">
        <TimeChart title="Duration by batch" unit="seconds" marks={marks}
          limit={it.trigger_s ? { at: it.trigger_s, text: "trigger" } : undefined}
          series={[{ label: "duration", token: "blue.500", points: points((batch) => batch.duration_s) }]} />
      </Section>
      <PhaseHistory batches={batches} marks={marks} />
    </SimpleGrid>
  );
}

const PHASE_TOKENS = ["purple.500", "teal.500", "orange.500", "pink.500", "cyan.500"];

/** The phases that took most, over time. */
function PhaseHistory({ batches, marks }: { batches: Batch[]; marks: Mark[] }) {
  const names = longestPhases(batches.map((batch) => batch.phases), PHASE_TOKENS.length);
  if (names.length === 0) return null;
  return (
    <Section title="Duration of each batch, by phase">
      <TimeChart title="Phases by batch" unit="seconds" marks={marks} series={names.map((name, number) => ({
        label: name, token: PHASE_TOKENS[number] ?? "gray.500",
        points: batches.map((batch) => ({ x: Date.parse(batch.committed_at), y: batch.phases?.[name] ?? null })),
      }))} />
    </Section>
  );
}

function Phases({ durations }: { durations: Record<string, number> }) {
  const phases = Object.entries(durations).sort(([, one], [, other]) => other - one);
  if (phases.length === 0) return <Text color="fg.muted">No figures of this launch yet.</Text>;
  const longest = phases[0]?.[1] || 1;
  return (
    <Table.Root size="sm" aria-label="Phases">
      <Table.Body>
        {phases.map(([name, value]) => (
          <Table.Row key={name}>
            <Table.Cell width="14rem">{name}</Table.Cell>
            <Table.Cell width="6rem" textAlign="end">{seconds(value)}</Table.Cell>
            <Table.Cell>
              <Box height="2" borderRadius="sm" bg="blue.500" width={`${Math.max(0.5, (100 * value) / longest)}%`} />
            </Table.Cell>
          </Table.Row>
        ))}
      </Table.Body>
    </Table.Root>
  );
}

function Partitions({ it }: { it: StreamDocument }) {
  const uneven = skew(it.partitions.map((part) => number(part.lag_records)));
  return (
    <Stack gap="2">
      <Text color="fg.muted">
        {it.lag_records == null && it.lag_unknown ? `How many records wait is not known: ${it.lag_unknown}`
          : `${count(it.lag_records)} records wait`}{it.lag_s ? `, the oldest for ${span(it.lag_s)}` : ""}
        {it.lag_trend && it.lag_trend !== "none" ? `; the lag is ${it.lag_trend}` : ""}
        {it.catch_up_s ? `, caught up in ${span(it.catch_up_s)}` : ""}
        {uneven !== null && uneven >= 2 ? `; uneven: the largest partition has ${uneven.toFixed(1)} times the mean` : ""}
        {it.state_rows == null ? "" : `; state: ${count(it.state_rows)} rows, ${bytes(it.state_bytes)}`}
      </Text>
      <List label="Partitions" rows={it.partitions} id={(part: Partition) => `${part.source}/${part.topic}/${part.partition}`}
        columns={[
          { title: "Topic", cell: (part) => part.topic },
          { title: "Partition", number: true, cell: (part) => part.partition },
          { title: "Landed to", number: true, cell: (part) => count(part.position) },
          { title: "End", number: true, cell: (part) => count(part.end) },
          { title: "Lag", number: true, cell: (part) => count(part.lag_records) },
          { title: "Held by open transactions", number: true, cell: (part) => count(part.held_records) },
        ]} />
    </Stack>
  );
}
