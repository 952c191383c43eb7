import { Box, Button, Code, Flex, Heading, Text } from "@chakra-ui/react";
import { type ReactNode, useState } from "react";

import { ago, exact } from "../format";
import type { Time } from "../types";
import { commandIn, copy } from "./copy";

export function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Box as="section" mt="5">
      <Heading as="h3" size="sm" mb="2">{title}</Heading>
      {children}
    </Box>
  );
}

/** A time as its age; the exact time is in its tooltip. */
export function When({ at, now }: { at: Time | null; now: Time }) {
  return <Text as="span" whiteSpace="nowrap" title={exact(at)}>{ago(at, now)}</Text>;
}

/** What is next, with a button that copies its command. */
export function Command({ text }: { text: string }) {
  const [said, setSaid] = useState<[text: string, word: string] | null>(null); // a new command is not copied yet
  return (
    <Flex gap="2" align="center" wrap="wrap">
      <Code whiteSpace="pre-wrap" px="2" py="1">{text}</Code>
      <Button
        size="xs"
        variant="outline"
        onClick={({ currentTarget }) => {
          const container = currentTarget.parentElement ?? document.body;
          void copy(commandIn(text), container).then((done) => setSaid([text, done ? "Copied" : "Select it and copy"]));
        }}
      >
        {said?.[0] === text ? said[1] : "Copy"}
      </Button>
    </Flex>
  );
}

export function Lines({ lines }: { lines: string[] }) {
  return (
    <Box as="pre" fontFamily="mono" fontSize="sm" whiteSpace="pre-wrap" overflowX="auto" p="3" bg="bg.muted"
      borderRadius="md">
      {lines.join("\n")}
    </Box>
  );
}
