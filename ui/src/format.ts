// Numbers and times in words. Ages are measured against the API's clock, never the browser's.
import type { Integer, Time } from "./types";

const NONE = "–";

/** An integer as a number for charts and comparisons; text that JavaScript rounds only where it is beyond 2^53. */
export function number(value: Integer): number;
export function number(value: Integer | null | undefined): number | null;
export function number(value: Integer | null | undefined): number | null {
  return value == null ? null : Number(value);
}

/** A duration in one or two units, as the command line writes it: `4 s`, `6 min`, `2 h 5 min`, `3 days`. */
export function span(seconds: number | null | undefined): string {
  if (seconds == null) return NONE;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  const rest = minutes % 60;
  if (hours < 48) return rest ? `${hours} h ${rest} min` : `${hours} h`;
  return `${Math.round(hours / 24)} days`;
}

/** Seconds with the precision that a batch needs: `0.84 s`, `12 s`. */
export function seconds(value: number | null | undefined): string {
  if (value == null) return NONE;
  return value < 10 ? `${Number(value.toPrecision(2))} s` : span(value);
}

/** An age beside its limit, with a word if it is over: never a colour alone. */
export function within(value: number | null | undefined, limit: number | null | undefined): string {
  if (limit == null) return span(value);
  return `${span(value)} of ${span(limit)}${value != null && value > limit ? ", over" : ""}`;
}

/** How long ago a time was at `now`. */
export function ago(at: Time | null | undefined, now: Time): string {
  if (at == null) return NONE;
  return `${span((Date.parse(now) - Date.parse(at)) / 1000)} ago`;
}

/** A time to the second, in UTC, as all of Lakeward writes it. */
export function exact(at: Time | null | undefined): string {
  if (at == null) return "";
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A time on an axis: with its day where the axis is longer than one. */
export function clock(milliseconds: number, length = 0): string {
  const text = new Date(milliseconds).toISOString();
  return length > 86_400_000 ? text.slice(5, 16).replace("T", " ") : text.slice(11, 16);
}

export function count(value: Integer | null | undefined): string {
  if (value == null) return NONE;
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** A number of things: `1 table`, `1,000 tables`. */
export const many = (value: Integer, noun: string): string => `${count(value)} ${noun}${Number(value) === 1 ? "" : "s"}`;

/** A time where the text is one; else the text, e.g. `the end of topic orders`. */
export function moment(text: string | null | undefined): string {
  if (text == null) return "";
  return /^\d{4}-\d\d-\d\dT/.test(text) ? exact(text) : text;
}

/** A number of rows a second. */
export function rate(value: number | null | undefined): string {
  if (value == null) return NONE;
  return value < 10 ? String(Number(value.toPrecision(2))) : count(Math.round(value));
}

export function bytes(value: Integer | null | undefined): string {
  if (value == null) return NONE;
  let left = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (left < 1024) return `${left < 10 && unit !== "B" ? left.toFixed(1) : Math.round(left)} ${unit}`;
    left /= 1024;
  }
  return `${left.toFixed(1)} TiB`;
}

/** `40 → 2`, and what there was to be compared. */
export function change(
  before: number | undefined,
  after: number | undefined,
  words: (value: number | undefined) => string = count,
): string {
  if (before == null && after == null) return NONE;
  if (before == null || after == null) return words(before ?? after);
  return before === after ? words(after) : `${words(before)} → ${words(after)}`;
}

/** The names of the phases that took most in all, the longest first. A phase that is the sum of others is not one. */
export function longestPhases(batches: (Record<string, number> | null)[], most: number): string[] {
  const sums = new Map<string, number>();
  for (const batch of batches) {
    for (const [name, value] of Object.entries(batch ?? {})) sums.set(name, (sums.get(name) ?? 0) + value);
  }
  sums.delete("triggerExecution");
  if (sums.has("stage")) sums.delete("addBatch");
  return [...sums].sort(([, one], [, other]) => other - one).slice(0, most).map(([name]) => name);
}

/** The largest partition's lag over the mean: 1 is even. None where nothing waits. */
export function skew(lags: number[]): number | null {
  const all = lags.reduce((sum, lag) => sum + lag, 0);
  return all === 0 || lags.length < 2 ? null : Math.max(...lags) / (all / lags.length);
}
