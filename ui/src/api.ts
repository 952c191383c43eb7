// The client of the API, and of the one route of Airflow that starts a run. The login cookie goes along.
import { useQuery } from "@tanstack/react-query";

import type {
  ApiError, Audit, Batch, LagHistory, Plan, Quality, QualityDetail, StreamDetail, Streams, TableDetail, Tables,
} from "./types";

const REFRESH_MS = 5_000;
/** Drivers record the lag once a minute. */
const LAG_REFRESH_MS = 30_000;
/** Longer than the API itself waits for the registry (20 s). */
const WITHIN_MS = 30_000;

/** The path that Airflow is served under, with its last slash. */
export function base(): string {
  const href = document.querySelector<HTMLBaseElement>("head > base")?.href;
  return new URL(href ?? "/", location.href).pathname;
}

/** No answer (status 0), or one that is not the API's, in the API's words where it has some. */
export class Failed extends Error {
  constructor(readonly status: number, readonly error: ApiError) {
    super(error.what);
  }
}

export async function call<T>(path: string, body?: unknown): Promise<T> {
  let status = 0;
  let found: unknown = null;
  try {
    const answer = await fetch(base() + path, {
      credentials: "same-origin",
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(WITHIN_MS),
    });
    status = answer.status;
    found = await answer.json();
    if (answer.ok && found !== null && typeof found === "object") return found as T;
  } catch (error) {
    if (status === 0) throw new Failed(0, unanswered(error));
    // Not JSON: the page of a proxy, or the connection ended within the answer.
  }
  throw new Failed(status, inWords(status, found));
}

export function unanswered(error: unknown): ApiError {
  const late = error instanceof Error && error.name === "TimeoutError";
  const why = late ? `no answer within ${WITHIN_MS / 1000} s` : String(error instanceof Error ? error.message : error);
  return { code: "", what: "Airflow does not answer", why, next: "" };
}

export function inWords(status: number, found: unknown): ApiError {
  if (status === 401) {
    return { code: "", what: "You are not logged in any more", why: "reload the page to log in again", next: "" };
  }
  if (found !== null && typeof found === "object") {
    if ("error" in found) return found.error as ApiError;
    if ("detail" in found) {
      const why = typeof found.detail === "string" ? found.detail : JSON.stringify(found.detail);
      const what = status === 403 ? "You have no permission for this" : `Airflow answered ${status}`;
      return { code: "", what, why, next: "" };
    }
  }
  if (status === 403) return { code: "", what: "You have no permission for this", why: "", next: "" };
  return { code: "", what: `The server answered ${status}, but not with data`, why: "", next: "" };
}

const api = (path: string) => `lakeward/api/v1/${path}`;
const part = encodeURIComponent;

function usePolled<T>(path: string, every: number = REFRESH_MS) {
  return useQuery<T, Failed>({
    queryKey: [path],
    queryFn: () => call<T>(api(path)),
    refetchInterval: every,
    retry: false,
  });
}

export const useStreams = () => usePolled<Streams>("streams");
export const useStream = (id: string) => usePolled<StreamDetail>(`streams/${part(id)}`);
export const useBatches = (id: string) => usePolled<{ batches: Batch[] }>(`streams/${part(id)}/batches?limit=120`);
export const useLag = (id: string, hours: number) =>
  usePolled<LagHistory>(`streams/${part(id)}/lag?hours=${hours}`, LAG_REFRESH_MS);
export const useTables = () => usePolled<Tables>("tables");
export const useTable = (name: string) => usePolled<TableDetail>(`tables/${part(name)}`);
export const useQuality = () => usePolled<Quality>("quality");
export const useQualityOf = (name: string) => usePolled<QualityDetail>(`quality/${part(name)}`);
export const useAudit = () => usePolled<Audit>("audit?limit=500");

export type Parameters = Record<string, string | number | boolean>;

export const plan = (dag: string, parameters: Parameters) =>
  call<Plan>(api(`dags/${part(dag)}/plan`), parameters);

/** Start a run of a stream's Dag by Airflow's own API, which checks and records who does it; returns its id. */
export async function run(dag: string, parameters: Parameters): Promise<string> {
  const started = await call<{ dag_run_id: string }>(`api/v2/dags/${part(dag)}/dagRuns`, {
    logical_date: null,
    conf: parameters,
  }).catch((error: unknown) => {
    if (error instanceof Failed && error.status === 0) {
      const next = "look at the runs of the stream's Dag before you try again";
      throw new Failed(0, { ...error.error, what: "Airflow does not answer; the run may have started", next });
    }
    throw error;
  });
  return started.dag_run_id;
}

/** The Dag of a stream is named by it. */
export const STREAM_DAG = "stream__";

export const runLink = (dag: string, id: string) => `${base()}dags/${part(dag)}/runs/${part(id)}`;
