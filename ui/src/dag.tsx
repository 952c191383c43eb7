// The tab on the Dag of a stream. Airflow shows it on every Dag.
import { Box } from "@chakra-ui/react";

import { STREAM_DAG } from "./api";
import { Empty } from "./components/frame";
import { Stream } from "./pages/stream";
import { Queries } from "./provider";

export default function DagTab({ dagId }: { dagId?: string }) {
  if (!dagId?.startsWith(STREAM_DAG)) return <Box p="4"><Empty>This Dag belongs to no stream.</Empty></Box>;
  return <Queries><Box p="4" overflowY="auto"><Stream id={dagId.slice(STREAM_DAG.length)} /></Box></Queries>;
}
