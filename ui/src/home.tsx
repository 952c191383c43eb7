// The block on Airflow's home page: the first line, and a link to the page.
import { Box, Flex, Heading, Link } from "@chakra-ui/react";

import { base, useStreams } from "./api";
import { Frame } from "./components/frame";
import { Strip } from "./components/strip";
import { Queries } from "./provider";

function Block() {
  return (
    <Box my="4">
      <Flex justify="space-between" mb="2">
        <Heading as="h2" size="md">Lakehouse</Heading>
        <Link href={`${base()}plugin/lakeward`}>All streams</Link>
      </Flex>
      <Frame query={useStreams()}>{(data) => <Strip headline={data.headline} />}</Frame>
    </Box>
  );
}

export default function Home() {
  return <Queries><Block /></Queries>;
}
