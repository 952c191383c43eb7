// All streams, worst first. The first line says what is wrong and since when.
import { Box, Button, Code, Flex, Heading, Input, Stack, Text } from "@chakra-ui/react";

import { useStreams } from "../api";
import { State } from "../components/badge";
import { Empty, Frame, Notice } from "../components/frame";
import { type Column, List } from "../components/list";
import { Lines, When } from "../components/section";
import { Sheet } from "../components/sheet";
import { Incidents } from "../components/incidents";
import { Strip } from "../components/strip";
import { count, many, rate, seconds, span, within } from "../format";
import { type Place, useFilter } from "../place";
import type { StreamRow, Streams } from "../types";
import { Stream } from "./stream";

const EXAMPLE = [
  "owner: shop",
  "source:",
  "  kafka: {topics: [orders], starting_offsets: earliest, max_offsets_per_trigger: 20000}",
  "decode:",
  "  json: \"order_id BIGINT, amount DOUBLE, ordered_at TIMESTAMP\"",
  "sink:",
  "  iceberg: {table: shop.orders, partition_by: [\"days(ordered_at)\"]}",
  "trigger: {every: 10s}",
];

export function StreamsPage({ place }: { place: Place }) {
  const query = useStreams();
  return (
    <Frame query={query}>
      {(data) => (
        <Stack gap="4">
          <Strip data={data} />
          <Incidents incidents={data.incidents} place={place} />
          {data.unreadable.length ? (
            <Notice level="warning" title={`Not everything of ${data.unreadable.join(", ")} can be read`} />
          ) : null}
          {data.streams.length === 0 ? <None /> : <Rows data={data} place={place} />}
          {place.open === null ? null : (
            <Sheet title={place.open} close={() => place.show("streams")}>
              <Stream key={place.open} id={place.open} />
            </Sheet>
          )}
        </Stack>
      )}
    </Frame>
  );
}

function None() {
  return (
    <Box>
      <Empty>
        No stream is deployed. Write one as a file, for example <Code>conf/streams/orders.yaml</Code>, and run{" "}
        <Code>lakeward deploy</Code>:
      </Empty>
      <Lines lines={EXAMPLE} />
    </Box>
  );
}

function Rows({ data, place }: { data: Streams; place: Place }) {
  const [text, setText] = useFilter("text");
  const [state, setState] = useFilter("state");
  const wanted = text.trim().toLowerCase();
  const rows = data.streams.filter(
    (row) => (state === "" || row.state === state) &&
      [row.id, row.sink, row.owner, row.driver.name, row.why, ...row.tags].some((part) => part?.toLowerCase().includes(wanted)),
  );
  const states = Object.keys(data.counts);
  const shown = state === "" || states.includes(state) ? states : [state, ...states]; // else it could not be let go
  return (
    <Stack gap="3">
      <Flex gap="2" wrap="wrap" align="center">
        <Heading as="h2" size="md">{many(data.streams.length, "stream")}</Heading>
        <Input width="16rem" size="sm" placeholder="Name, table, owner, tag" aria-label="Filter streams" value={text}
          onChange={(event) => setText(event.target.value)} />
        <Flex gap="1" wrap="wrap" role="group" aria-label="Filter by state">
          {shown.map((name) => (
            <Button key={name} size="sm" variant={name === state ? "solid" : "outline"} aria-pressed={name === state}
              onClick={() => setState(name === state ? "" : name)}>
              <State value={name} /> {count(data.counts[name] ?? 0)}
            </Button>
          ))}
        </Flex>
      </Flex>
      {rows.length === 0 ? <Empty>No stream fits the filter.</Empty> : (
        <List label="Streams" rows={rows} columns={columns(data.now)} id={(row) => row.id}
          open={(row) => place.show("streams", row.id)} />
      )}
    </Stack>
  );
}

const columns = (now: string): Column<StreamRow>[] => [
  { title: "State", cell: (row) => <State value={row.state} /> },
  { title: "Stream", cell: (row) => (
    <Box>
      <Text fontWeight="semibold">{row.id}</Text>
      <Text color="fg.muted" fontSize="xs">{row.sink ?? ""}</Text>
    </Box>
  ) },
  { title: "Since", cell: (row) => <When at={row.since} now={now} /> },
  { title: "Why", cell: (row) => <Text lineClamp={2} maxW="22rem" title={row.why}>{row.why}</Text> },
  { title: "Lag", number: true, cell: (row) => (
    <Text whiteSpace="nowrap" title={row.lag_unknown ?? (row.lag_age_s == null ? "" : `measured ${span(row.lag_age_s)} ago`)}>
      {count(row.lag_records)}{row.lag_trend && row.lag_trend !== "none" ? `, ${row.lag_trend}` : ""}
    </Text>
  ) },
  { title: "Behind, of limit", number: true, cell: (row) => (
    <Text whiteSpace="nowrap" title="The age of the oldest record that waits, and the freshness limit">
      {within(row.lag_s, row.freshness_limit_s)}
    </Text>
  ) },
  { title: "Last commit", number: true, cell: (row) => <When at={row.committed_at} now={now} /> },
  { title: "Rows/s in → out", number: true, cell: (row) => (
    <Text whiteSpace="nowrap">{rate(row.input_rows_per_second)} → {rate(row.processed_rows_per_second)}</Text>
  ) },
  { title: "Batch / trigger", number: true, cell: (row) => (
    <Text whiteSpace="nowrap">{seconds(row.batch_duration_s)} / {seconds(row.trigger_s)}</Text>
  ) },
  { title: "Failures 24 h", number: true, cell: (row) => count(row.restarts_24h) },
  { title: "Owner", cell: (row) => row.owner ?? "" },
];
