// The block on Airflow's home page: the first line, the worst three streams, and a link to the page.
import { Box, Flex, Heading, Link, Stack, Text } from "@chakra-ui/react";

import { base, useStreams } from "./api";
import { State } from "./components/badge";
import { Frame } from "./components/frame";
import { Strip } from "./components/strip";
import { Queries } from "./provider";

const CALM = new Set(["healthy", "stopped", "completed"]);
const MOST = 3;

function Block() {
  const page = `${base()}plugin/lakeward`;
  return (
    <Box my="4">
      <Flex justify="space-between" mb="2">
        <Heading as="h2" size="md">Lakehouse</Heading>
        <Link href={page}>All streams</Link>
      </Flex>
      <Frame query={useStreams()}>
        {(data) => (
          <Stack gap="2">
            <Strip data={data} />
            {data.streams.filter((row) => !CALM.has(row.state)).slice(0, MOST).map((row) => (
              <Flex key={row.id} gap="2" align="center">
                <State value={row.state} />
                <Link href={`${page}?tab=streams&open=${encodeURIComponent(row.id)}`} fontWeight="semibold">{row.id}</Link>
                <Text lineClamp={1} title={row.why}>{row.why}</Text>
              </Flex>
            ))}
          </Stack>
        )}
      </Frame>
    </Box>
  );
}

export default function Home() {
  return <Queries><Block /></Queries>;
}
