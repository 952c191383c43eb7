// Open incidents that are not about one stream: what is wrong, what to do, and where the page shows more.
import { Box, Button, Flex, Text } from "@chakra-ui/react";
import { useState } from "react";

import { count, exact } from "../format";
import { type Place, TABS } from "../place";
import type { PageIncident } from "../types";
import { Notice } from "./frame";
import { Command } from "./section";

const FEW = 3;

export function Incidents({ incidents, place }: { incidents: PageIncident[]; place: Place }) {
  const [all, setAll] = useState(false);
  const shown = all ? incidents : incidents.slice(0, FEW);
  if (incidents.length === 0) return null;
  return (
    <>
      {shown.map((incident) => <Incident key={incident.id} incident={incident} place={place} />)}
      {incidents.length > shown.length ? (
        <Box><Button size="sm" variant="outline" onClick={() => setAll(true)}>
          Show {count(incidents.length - shown.length)} more open incidents
        </Button></Box>
      ) : null}
    </>
  );
}

export function Incident({ incident, place }: { incident: PageIncident; place?: Place }) {
  const [first, ...rest] = incident.text.split("\n");
  const tab = TABS.find((name) => name === incident.tab);
  return (
    <Notice level="warning" title={`Open incident ${incident.id}, since ${exact(incident.opened_at)}: ${first}`}>
      {place === undefined ? rest.map((line, at) => <Text key={`${at}${line}`}>{line}</Text>) : null}
      <Flex gap="3" align="center" wrap="wrap" mt="1">
        {incident.next ? <Command text={incident.next} /> : null}
        {place !== undefined && tab !== undefined && incident.open !== null ? (
          <Button size="xs" variant="outline" onClick={() => place.show(tab, incident.open)}>Show {incident.open}</Button>
        ) : null}
        <Text fontSize="sm">Runbook: {incident.runbook}</Text>
      </Flex>
    </Notice>
  );
}
