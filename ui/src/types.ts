// The documents of the API. Their fields are generated from docs/reference/openapi.json: `npm run types`.
import type { components } from "./openapi";

type Schemas = components["schemas"];

/** An integer; text where JavaScript could not hold it exactly, e.g. a snapshot id. */
export type Integer = number | string;
export type Time = string;

export type Action = Schemas["Action"];
export type ApiError = Schemas["ErrorBody"]["error"];
export type Audit = Schemas["Audit"];
export type Batch = Schemas["BatchRow"];
export type Batches = Schemas["Batches"];
export type Change = Schemas["ChangeRow"];
export type CheckedTable = Schemas["CheckedTable"];
export type Headline = Schemas["Headline"];
export type LagHistory = Schemas["LagHistory"];
export type PageIncident = Schemas["PageIncident"];
export type Partition = Schemas["WatchedPartition"];
export type Pin = Schemas["Pin"];
export type Plan = Schemas["PlanDocument"];
export type Quality = Schemas["Quality"];
export type QualityDetail = Schemas["QualityDetail"];
export type StreamDetail = Schemas["StreamDetail"];
export type StreamDocument = Schemas["StreamDocument"];
export type StreamRow = Schemas["StreamRow"];
export type Streams = Schemas["Streams"];
export type TableAction = Schemas["ActionRow"];
export type TableDetail = Schemas["TableDetail"];
export type TableRow = Schemas["TableRow"];
export type Tables = Schemas["Tables"];
export type TableTrouble = Schemas["TableTrouble"];
export type Trend = Schemas["Trend"];

/** What an answer says of its own age. */
export type Aged = Pick<Streams, "now" | "age_s" | "stale">;
