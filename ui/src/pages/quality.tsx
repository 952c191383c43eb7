// Checks: verdicts, failing since which snapshot, trends, and the sample rows that a suite lets show.
import { Box, Flex, Heading, Stack, Text } from "@chakra-ui/react";

import { useQuality, useQualityOf } from "../api";
import { State } from "../components/badge";
import { Empty, Frame } from "../components/frame";
import { Incident } from "../components/incidents";
import { type Column, List } from "../components/list";
import { Command, Lines, Section, When } from "../components/section";
import { Sheet } from "../components/sheet";
import { count, many, seconds, span } from "../format";
import type { Place } from "../place";
import type { CheckedTable, QualityDetail, Trend } from "../types";

const SIGNS: Record<string, string> = { pass: "·", fail: "✗", error: "?", skipped: " " };

export function QualityPage({ place }: { place: Place }) {
  return (
    <Frame query={useQuality()}>
      {(data) => (
        <Stack gap="3">
          <Heading as="h2" size="md">{many(data.tables.length, "checked table")}</Heading>
          {data.tables.length === 0 ? (
            <Empty>No check has run yet. A suite is a file expectations/NAMESPACE.TABLE.yaml.</Empty>
          ) : (
            <List label="Checked tables" rows={data.tables} columns={columns(data.now)} id={(row) => row.table}
              open={(row) => place.show("quality", row.table)} />
          )}
          {place.open === null ? null : (
            <Sheet title={place.open} close={() => place.show("quality")}><One key={place.open} name={place.open} /></Sheet>
          )}
        </Stack>
      )}
    </Frame>
  );
}

const columns = (now: string): Column<CheckedTable>[] => [
  { title: "Verdict", cell: (row) => <State value={row.verdict} /> },
  { title: "Table", cell: (row) => <Text fontWeight="semibold">{row.table}</Text> },
  { title: "Checked", cell: (row) => <When at={row.at} now={now} /> },
  { title: "Failing", cell: (row) => (
    <Text lineClamp={2} maxW="26rem">
      {row.failing.map((check) => `${check.expectation}${check.unexpected_count ? ` (${count(check.unexpected_count)} rows)` : ""}`)
        .join(", ") || "none"}
    </Text>
  ) },
  { title: "First bad snapshot", number: true, cell: (row) => row.first_bad_snapshot ?? "–" },
  { title: "Verified snapshot", number: true, cell: (row) => row.verified_snapshot ?? "–" },
  { title: "Not verified yet", cell: (row) => <Unproven lag={row.unproven} now={now} /> },
  { title: "Note", cell: (row) => <Text lineClamp={2} maxW="20rem" title={row.note}>{row.note}</Text> },
];

function One({ name }: { name: string }) {
  return <Frame query={useQualityOf(name)}>{(detail) => <Detail detail={detail} />}</Frame>;
}

function Detail({ detail }: { detail: QualityDetail }) {
  const samples = detail.newest.checks.filter((check) => check.sample.length > 0);
  return (
    <Box pb="8">
      <Flex gap="2" align="center"><State value={detail.newest.verdict} /><Text>{detail.newest.note}</Text></Flex>
      {detail.incident ? <Box mt="2"><Incident incident={detail.incident} /></Box> : null}
      {detail.newest.next ? <Box mt="2"><Command text={detail.newest.next} /></Box> : null}
      <Section title={`Each check over ${many(detail.runs.length, "run")}, oldest first (· pass, ✗ fail, ? not computed)`}>
        <List label="Checks" rows={detail.checks} columns={trendColumns(detail)} id={(row) => row.check} />
      </Section>
      {samples.map((check) => (
        <Section key={check.id} title={`Failing rows: ${check.expectation}`}>
          <Lines lines={check.sample.map((row) => JSON.stringify(row))} />
        </Section>
      ))}
      <Section title="Runs">
        <Text color="fg.muted" mb="1">
          {many(detail.cost.runs, "run")} took {span(detail.cost.duration_s)}, {span(detail.cost.cpu_s)} of CPU and{" "}
          {many(detail.cost.spark_jobs, "Spark job")}.
        </Text>
        <List label="Runs" rows={detail.runs} id={(row) => row.run} columns={[
          { title: "When", cell: (row) => <When at={row.at} now={detail.now} /> },
          { title: "Verdict", cell: (row) => <State value={row.verdict} /> },
          { title: "Scope", cell: (row) => row.scope },
          { title: "To", number: true, cell: (row) => row.to_snapshot ?? "–" },
          { title: "First bad", number: true, cell: (row) => row.first_bad_snapshot ?? "–" },
          { title: "Verified", number: true, cell: (row) => row.verified_snapshot ?? "–" },
          { title: "Took", number: true, cell: (row) => seconds(row.duration_s) },
        ]} />
      </Section>
    </Box>
  );
}

/** The commits behind `verified`: for how long the oldest has waited, how many, and whether that is over the suite's limit. */
function Unproven({ lag, now }: { lag: CheckedTable["unproven"]; now: string }) {
  if (lag === null) return "–";
  if (lag.error) return <Text lineClamp={2} maxW="16rem" title={lag.error}>not known: {lag.error}</Text>;
  if (lag.since === null) return "nothing";
  const waited = (Date.parse(now) - Date.parse(lag.since)) / 1000;
  return (
    <Box>
      <Text color={waited > lag.limit_s ? "fg.error" : undefined}>
        {span(waited)}{waited > lag.limit_s ? `, the limit is ${span(lag.limit_s)}` : ""}
      </Text>
      <Text color="fg.muted" fontSize="xs">{many(Number(lag.snapshots), "commit")}{Number(lag.rows) ? `, ${many(Number(lag.rows), "row")}` : ""}</Text>
    </Box>
  );
}

const recovered = ({ recovered: it }: Trend, now: string) => (it === null ? "" : (
  <Text color="fg.muted">passes again since <When at={it.at} now={now} />, failed for {span(it.failed_s)}</Text>
));

const trendColumns = ({ now, landed }: QualityDetail): Column<Trend>[] => [
  { title: "State", cell: (row) => <State value={row.state} /> },
  { title: "Severity", cell: (row) => row.severity },
  { title: "Check", cell: (row) => (
    <Text>{row.expectation}{row.kwargs.column ? ` on ${String(row.kwargs.column)}` : ""}</Text>
  ) },
  { title: "Trend", cell: (row) => (
    <Text fontFamily="mono" whiteSpace="pre" aria-label={`${row.points.filter((point) => point.state === "fail").length} failures`}>
      {row.points.map((point) => SIGNS[point.state] ?? "?").join("")}
    </Text>
  ) },
  { title: "Rows", number: true, cell: (row) => {
    const newest = row.points.at(-1)?.unexpected_count;
    return `${count(newest)}${row.direction ? `, ${row.direction}` : ""}`;
  } },
  { title: "Failing since", cell: (row) => (row.failing_since === null ? recovered(row, now) : (
    <Box>
      <When at={row.failing_since.at} now={now} />
      {row.failing_since.snapshot ? `, ${row.failing_since.noun} ${row.failing_since.snapshot}` : ""}
      {landed[row.failing_since.snapshot ?? ""]?.map(({ stream, text }) => <Text key={stream} color="fg.muted" fontSize="xs">{text}</Text>)}
    </Box>
  )) },
];
