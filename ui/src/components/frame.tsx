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

function Trouble({ failure, from }: { failure: Failed; from?: string }) {
  const { what, why, next } = failure.error;
  return (
    <Notice level={failure.status === 403 ? "warning" : "error"} title={from ? `${what}; ${from}` : what}>
      {why ? <Text>{why}</Text> : null}
      {next ? <Code whiteSpace="pre-wrap">{next}</Code> : null}
    </Notice>
  );
}

/** After one of these the data is not this reader's to see, or no longer exists. */
const FINAL = new Set([401, 403, 404]);

/** The data of a query, or what there is instead of it. */
export function Frame<T extends object>({ query, children }: {
  query: UseQueryResult<T, Failed>;
  children: (data: T) => ReactNode;
}) {
  const { data, error } = query;
  if (error !== null && (data === undefined || FINAL.has(error.status))) return <Trouble failure={error} />;
  if (data === undefined) {
    return (
      <Stack gap="2" aria-busy="true" aria-label="Loading">
        {[1, 2, 3, 4].map((line) => <Skeleton key={line} height="8" />)}
      </Stack>
    );
  }
  const { age_s = 0, stale }: { age_s?: number; stale?: string | null } = data;
  // Both times are the browser's: their difference is right even where its clock is not.
  const unasked_s = Math.max(0, query.errorUpdatedAt - query.dataUpdatedAt) / 1000;
  return (
    <Stack gap="3">
      {error === null ? null : <Trouble failure={error} from={`this is from ${span(age_s + unasked_s)} ago`} />}
      {stale && error === null ? (
        <Notice level="warning" title={`The registry does not answer; this is from ${span(age_s)} ago`}>{stale}</Notice>
      ) : null}
      <Box>{children(data)}</Box>
    </Stack>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <Text color="fg.muted" py="6">{children}</Text>;
}
