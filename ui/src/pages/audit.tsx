// Who changed what, and why.
import { Flex, Heading, Input, Stack, Text } from "@chakra-ui/react";

import { useAudit } from "../api";
import { Empty, Frame } from "../components/frame";
import { List } from "../components/list";
import { When } from "../components/section";
import { useFilter } from "../place";
import type { Audit } from "../types";

export function AuditPage() {
  return <Frame query={useAudit()}>{(data) => <Changes data={data} />}</Frame>;
}

function Changes({ data }: { data: Audit }) {
  const [text, setText] = useFilter("text");
  const wanted = text.trim().toLowerCase();
  const rows = data.changes.filter((row) =>
    [row.scope, row.name, row.change, row.author, row.comment, detail(row.detail)].some((part) => part.toLowerCase().includes(wanted)));
  return (
    <Stack gap="3">
      <Flex gap="2" align="center">
        <Heading as="h2" size="md">Changes</Heading>
        <Input width="16rem" size="sm" placeholder="Stream, table, person, comment" aria-label="Filter changes"
          value={text} onChange={(event) => setText(event.target.value)} />
      </Flex>
      {rows.length === 0 ? <Empty>No change {wanted ? "fits the filter" : "was recorded"}.</Empty> : (
        <List label="Changes" rows={rows} id={(row) => String(row.id)} columns={[
          { title: "When", cell: (row) => <When at={row.at} now={data.now} /> },
          { title: "Who", cell: (row) => row.author },
          { title: "What", cell: (row) => row.change },
          { title: "Of", cell: (row) => `${row.scope} ${row.name}` },
          { title: "Detail", cell: (row) => (
            <Text fontFamily="mono" fontSize="xs" maxW="28rem" lineClamp={3} title={detail(row.detail)}>{detail(row.detail)}</Text>
          ) },
          { title: "Why", cell: (row) => <Text whiteSpace="pre-wrap">{row.comment}</Text> },
        ]} />
      )}
    </Stack>
  );
}

/** The detail of a change as text: `generation: 3`. */
function detail(value: unknown): string {
  if (value === null || typeof value !== "object") return value == null ? "" : String(value);
  return Object.entries(value)
    .map(([name, part]) => `${name}: ${typeof part === "string" ? part : JSON.stringify(part)}`)
    .join(", ");
}
