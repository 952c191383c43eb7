// The page in the navigation.
import { Box, Tabs } from "@chakra-ui/react";

import { AuditPage } from "./pages/audit";
import { QualityPage } from "./pages/quality";
import { StreamsPage } from "./pages/streams";
import { TablesPage } from "./pages/tables";
import { TABS, type Tab, usePlace } from "./place";
import { Queries } from "./provider";

const TITLES: Record<Tab, string> = { streams: "Streams", tables: "Tables", quality: "Quality", audit: "Audit" };

function Lakehouse() {
  const place = usePlace();
  return (
    <Box p="4" height="100%" overflowY="auto">
      <Tabs.Root value={place.tab} onValueChange={({ value }) => place.show(value as Tab)} lazyMount unmountOnExit>
        <Tabs.List>
          {TABS.map((tab) => <Tabs.Trigger key={tab} value={tab}>{TITLES[tab]}</Tabs.Trigger>)}
        </Tabs.List>
        <Tabs.Content value="streams"><StreamsPage place={place} /></Tabs.Content>
        <Tabs.Content value="tables"><TablesPage place={place} /></Tabs.Content>
        <Tabs.Content value="quality"><QualityPage place={place} /></Tabs.Content>
        <Tabs.Content value="audit"><AuditPage /></Tabs.Content>
      </Tabs.Root>
    </Box>
  );
}

export default function Page() {
  return <Queries><Lakehouse /></Queries>;
}
