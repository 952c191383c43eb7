// Tables: health, what maintenance did, what it would do next and why not now.
import { Box, Flex, Heading, Input, Link, Stack, Text } from "@chakra-ui/react";

import { useTable, useTables } from "../api";
import { State } from "../components/badge";
import { TimeChart } from "../components/chart";
import { Empty, Frame, Notice } from "../components/frame";
import { type Column, List } from "../components/list";
import { Command, Section, When } from "../components/section";
import { Sheet } from "../components/sheet";
import { bytes, change, count, exact, many, seconds } from "../format";
import { type Place, useFilter } from "../place";
import type { Pin, TableAction, TableDetail, TableRow, TableTrouble, Tables } from "../types";

export function TablesPage({ place }: { place: Place }) {
  return (
    <Frame query={useTables()}>
      {(data) => (
        <Stack gap="3">
          {data.tables.length === 0 ? <Empty>No table was observed yet. The Dag tables_observe does it.</Empty> : (
            <Rows data={data} place={place} />
          )}
          {place.open === null ? null : (
            <Sheet title={place.open} close={() => place.show("tables")}><One key={place.open} name={place.open} place={place} /></Sheet>
          )}
        </Stack>
      )}
    </Frame>
  );
}

function Rows({ data, place }: { data: Tables; place: Place }) {
  const [text, setText] = useFilter("text");
  const wanted = text.trim().toLowerCase();
  const rows = data.tables.filter((row) =>
    [row.table, row.format, row.verdict, ...row.streams, ...row.pins.map((pin) => pin.who)]
      .some((part) => part?.toLowerCase().includes(wanted)));
  return (
    <>
      <Flex gap="2" align="center">
        <Heading as="h2" size="md">{many(data.tables.length, "table")}</Heading>
        <Input width="16rem" size="sm" placeholder="Table, stream, who keeps it" aria-label="Filter tables" value={text}
          onChange={(event) => setText(event.target.value)} />
      </Flex>
      {rows.length === 0 ? <Empty>No table fits the filter.</Empty> : (
        <List label="Tables" rows={rows} columns={columns(data.now)} id={(row) => row.table}
          open={(row) => place.show("tables", row.table)} />
      )}
    </>
  );
}

const columns = (now: string): Column<TableRow>[] => [
  { title: "Table", cell: (row) => (
    <Box>
      <Text fontWeight="semibold">{row.table}</Text>
      <Text color="fg.muted" fontSize="xs">{row.format}{row.streams.length ? ` ← ${row.streams.join(", ")}` : ""}</Text>
    </Box>
  ) },
  { title: "Checks", cell: (row) => (row.verdict ? <State value={row.verdict} /> : "–") },
  { title: "Due", cell: (row) => (row.due_since ? <When at={row.due_since} now={now} /> : "–") },
  { title: "Held", cell: (row) => held(row) },
  { title: "Keeps snapshots", cell: (row) => pinned(row) },
  { title: "Files (small)", number: true, cell: (row) => `${count(row.figures.files)} (${count(row.figures.small_files)})` },
  { title: "Delete files", number: true, cell: (row) => count(row.figures.delete_files) },
  { title: "Manifests", number: true, cell: (row) => count(row.figures.manifests) },
  { title: "Snapshots", number: true, cell: (row) => count(row.figures.snapshots) },
  { title: "Size", number: true, cell: (row) => bytes(row.figures.size_bytes) },
  { title: "Rows", number: true, cell: (row) => count(row.figures.records) },
  { title: "Last action", cell: (row) => (row.last_action === null ? "–" : (
    <Flex gap="2" align="center" whiteSpace="nowrap">
      <State value={row.last_action.result ?? "running"} /> {row.last_action.action}{" "}
      <When at={row.last_action.started_at} now={now} />
    </Flex>
  )) },
  { title: "Observed", cell: (row) => <When at={row.observed_at} now={now} /> },
];

function held(row: TableRow): string {
  const until = row.hold_until === null ? "" : `until ${exact(row.hold_until)}`;
  return [until, row.expiry_hold === null ? "" : "expiry"].filter(Boolean).join(", ") || "–";
}

/** Who keeps the most snapshots, and how many others do. */
function pinned({ pins }: TableRow): string {
  const [most, ...others] = pins;
  if (most === undefined) return "–";
  return `${most.who} (${count(most.snapshots)})${others.length ? `, ${others.length} more` : ""}`;
}

function One({ name, place }: { name: string; place: Place }) {
  return <Frame query={useTable(name)}>{(detail) => <Detail detail={detail} place={place} />}</Frame>;
}

function Detail({ detail, place }: { detail: TableDetail; place: Place }) {
  const { table, now } = detail;
  const points = (name: string) =>
    detail.health.map((moment) => ({ x: Date.parse(moment.at), y: moment.figures[name] ?? null }));
  const marks = detail.actions
    .filter((action) => action.result === "done" && action.finished_at !== null)
    .map((action) => ({ at: Date.parse(action.finished_at as string), text: action.action }));
  return (
    <Box pb="8">
      <Stack gap="2">
        {detail.troubles.map((trouble) => <Trouble key={trouble.cause} trouble={trouble} />)}
        {table.hold_until ? <Notice level="info" title={`Maintenance is on hold until ${exact(table.hold_until)}`} /> : null}
      </Stack>
      <Flex gap="4" wrap="wrap" fontSize="sm" mt="2">
        <Text color="fg.muted">{table.location}</Text>
        {table.streams.map((stream) => (
          <Link as="button" key={stream} onClick={() => place.show("streams", stream)}>Stream {stream}</Link>
        ))}
        {table.verdict ? <Link as="button" onClick={() => place.show("quality", table.table)}>Checks</Link> : null}
      </Flex>
      <Section title="Files over time">
        {detail.health.length < 2 ? <Text color="fg.muted">One observation so far.</Text> : (
          <TimeChart title="Files over time" unit="files" marks={marks} series={[
            { label: "files", token: "blue.500", points: points("files") },
            { label: "small files", token: "orange.500", points: points("small_files") },
            { label: "snapshots", token: "gray.500", points: points("snapshots") },
          ]} />
        )}
      </Section>
      <Section title="Actions">
        {detail.actions.length === 0 ? <Text color="fg.muted">No action yet.</Text> : (
          <List label="Actions" rows={detail.actions} columns={actionColumns(now)} id={(row) => String(row.id)} />
        )}
      </Section>
      {detail.actions.length === 0 ? null : (
        <Section title="What maintenance saved and cost">
          {detail.savings.map((sentence) => <Text key={sentence}>{sentence}</Text>)}
        </Section>
      )}
      <Section title="Who keeps snapshots that the policy would expire">
        {table.pins.length === 0 ? <Text color="fg.muted">Nobody.</Text> : (
          <List label="Pins" rows={table.pins} columns={pinColumns(now)} id={(row) => row.who + row.why} />
        )}
      </Section>
      <Section title="What is next, and why not now">
        {detail.plan === null ? <Text color="fg.muted">No plan yet.</Text> : (
          <>
            <Text color="fg.muted" mb="1">Planned <When at={detail.plan.at} now={now} /></Text>
            <List label="Plan" rows={planned(detail)} columns={planColumns} id={(row) => row.action + row.when} />
          </>
        )}
      </Section>
    </Box>
  );
}

function Trouble({ trouble }: { trouble: TableTrouble }) {
  return (
    <Notice level="warning" title={trouble.cause}>
      <Text>Data lost? {trouble.data}</Text>
      <Box mt="1"><Command text={trouble.next} /></Box>
    </Notice>
  );
}

interface Planned {
  action: string;
  when: string;
  why: string;
}

function planned({ plan }: TableDetail): Planned[] {
  const due = (plan?.actions ?? []).map(({ action, why }) => ({ action, why, when: "due" }));
  const later = (plan?.not_planned ?? []).map(({ action, why, next_at }) => (
    { action, why, when: next_at === null ? "not planned" : `not before ${exact(next_at)}` }
  ));
  return [...due, ...later];
}

const planColumns: Column<Planned>[] = [
  { title: "Action", cell: (row) => row.action },
  { title: "When", cell: (row) => row.when },
  { title: "Why", cell: (row) => row.why },
];

const pinColumns = (now: string): Column<Pin>[] => [
  { title: "Who", cell: (row) => <Text whiteSpace="nowrap" fontWeight="semibold">{row.who}</Text> },
  { title: "Since", cell: (row) => <When at={row.since} now={now} /> },
  { title: "Snapshots", number: true, cell: (row) => count(row.snapshots) },
  { title: "Removed files kept, at most", number: true, cell: (row) => bytes(row.bytes) },
  { title: "Why", cell: (row) => row.why },
  { title: "What ends it", cell: (row) => <Text fontFamily="mono" fontSize="xs" whiteSpace="pre-wrap">{row.next}</Text> },
];

const actionColumns = (now: string): Column<TableAction>[] => [
  { title: "When", cell: (row) => <When at={row.started_at} now={now} /> },
  { title: "Action", cell: (row) => row.action },
  { title: "Result", cell: (row) => <State value={row.result ?? "running"} /> },
  { title: "Verified", cell: (row) => (row.verified === null ? "–" : row.verified ? "yes" : "no") },
  { title: "Files", number: true, cell: (row) => change(row.before.files, row.after.files) },
  { title: "Small", number: true, cell: (row) => change(row.before.small_files, row.after.small_files) },
  { title: "Delete files", number: true, cell: (row) => change(row.before.delete_files, row.after.delete_files) },
  { title: "Snapshots", number: true, cell: (row) => change(row.before.snapshots, row.after.snapshots) },
  { title: "Rows", number: true, cell: (row) => change(row.before.records, row.after.records) },
  { title: "Size", number: true, cell: (row) => change(row.before.size_bytes, row.after.size_bytes, bytes) },
  { title: "Took (CPU)", number: true, cell: (row) => `${seconds(row.duration_s)} (${seconds(row.cpu_s)})` },
  { title: "Why", cell: (row) => <Text lineClamp={2} maxW="24rem" title={row.why}>{row.why}</Text> },
];
