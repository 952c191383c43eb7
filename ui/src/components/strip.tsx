// The first line: what is wrong and since when, or since when all is well; and that nobody supervises, if so.
import { Stack } from "@chakra-ui/react";

import type { Streams } from "../types";
import { Notice } from "./frame";
import { Command } from "./section";

const LEVELS = { empty: "info", ok: "success", warning: "warning", trouble: "error" } as const;

export function Strip({ data: { headline, supervision } }: { data: Streams }) {
  const next = supervision.next ? <Command text={supervision.next} /> : null;
  // The headline names one trouble: a stream in trouble must not hide that nobody acts on it.
  const named = supervision.why === null || headline.text.includes(supervision.why);
  return (
    <Stack gap="2" position="sticky" top="0" zIndex="docked" bg="bg">
      <Notice level={LEVELS[headline.level]} title={headline.text}>{named ? next : null}</Notice>
      {named ? null : <Notice level="error" title={`Nobody supervises the streams: ${supervision.why}`}>{next}</Notice>}
    </Stack>
  );
}
