// What every list and detail shows around its data: loading, no permission, an error, an old reading.
import { Alert, Box, Code, Skeleton, Stack, Text } from "@chakra-ui/react";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import type { Failed } from "../api";
import { span } from "../format";

export function Notice({ level, title, children }: {
  level: "info" | "success" | "warning" | "error";
  title: string;
  children?: ReactNode;
}) {
  return (
    <Alert.Root status={level} role={level === "error" ? "alert" : "status"}>
      <Alert.Indicator />
      <Alert.Content>
        <Alert.Title>{title}</Alert.Title>
        {children == null ? null : <Alert.Description>{children}</Alert.Description>}
      </Alert.Content>
    </Alert.Root>
  );
}

function Trouble({ failure }: { failure: Failed }) {
  const { what, why, next } = failure.error;
  return (
    <Notice level={failure.status === 403 ? "warning" : "error"} title={what}>
      {why ? <Text>{why}</Text> : null}
      {next ? <Code whiteSpace="pre-wrap">{next}</Code> : null}
    </Notice>
  );
}

/** The data of a query, or what there is instead of it. */
export function Frame<T extends object>({ query, children }: {
  query: UseQueryResult<T, Failed>;
  children: (data: T) => ReactNode;
}) {
  const { data, error } = query;
  if (data === undefined) {
    if (error !== null) return <Trouble failure={error} />;
    return (
      <Stack gap="2" aria-busy="true" aria-label="Loading">
        {[1, 2, 3, 4].map((line) => <Skeleton key={line} height="8" />)}
      </Stack>
    );
  }
  const { age_s, stale }: { age_s?: number; stale?: string | null } = data;
  return (
    <Stack gap="3">
      {error === null ? null : <Trouble failure={error} />}
      {stale ? <Notice level="warning" title={`This is from ${span(age_s)} ago`}>{stale}</Notice> : null}
      <Box>{children(data)}</Box>
    </Stack>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <Text color="fg.muted" py="6">{children}</Text>;
}
