import { describe, expect, it } from "vitest";

import { ago, bytes, change, clock, count, exact, longestPhases, many, moment, rate, seconds, skew, span, within } from "./format";

describe("format", () => {
  it("writes durations as the command line does", () => {
    expect([0, 119, 121, 7199, 7200, 7500, 172_800].map(span)).toEqual([
      "0 s", "119 s", "2 min", "2 h", "2 h", "2 h 5 min", "2 days",
    ]);
    expect(span(null)).toBe("–");
    expect([seconds(0.8437), seconds(12.4)]).toEqual(["0.84 s", "12 s"]);
  });
  it("measures ages against the API's clock", () => {
    expect(ago("2026-11-01T00:00:00.000Z", "2026-11-01T00:06:00.000Z")).toBe("6 min ago");
    expect(exact("2026-11-01T00:00:00.123Z")).toBe("2026-11-01 00:00:00 UTC");
  });
  it("keeps every digit of an id", () => {
    expect(count("7234567890123456789")).toBe("7,234,567,890,123,456,789");
    expect([count(1234), count(0), count(null)]).toEqual(["1,234", "0", "–"]);
  });
  it("writes rates, sizes and changes", () => {
    expect([rate(0.4567), rate(1234.5)]).toEqual(["0.46", "1,235"]);
    expect([bytes(0), bytes(1536), bytes(5 * 1024 ** 4)]).toEqual(["0 B", "1.5 KiB", "5.0 TiB"]);
    expect([change(40, 2), change(2, 2), change(undefined, 7), change(undefined, undefined)]).toEqual([
      "40 → 2", "2", "7", "–",
    ]);
  });
  it("says in a word that a limit is passed", () => {
    expect([within(12, 120), within(300, 120), within(null, 120), within(12, null)]).toEqual([
      "12 s of 2 min", "5 min of 2 min, over", "– of 2 min", "12 s",
    ]);
  });
  it("has the day on a long axis", () => {
    const at = Date.parse("2026-11-01T13:05:00Z");
    expect([clock(at), clock(at, 3 * 86_400_000)]).toEqual(["13:05", "11-01 13:05"]);
  });
  it("says one table, and keeps a text that is no time", () => {
    expect([many(1, "table"), many(1000, "table")]).toEqual(["1 table", "1,000 tables"]);
    expect([moment("2026-11-01T13:05:00.5Z"), moment("the end"), moment(null)]).toEqual(["2026-11-01 13:05:00 UTC", "the end", ""]);
  });
  it("names the phases that take most, without the sums of others", () => {
    const batches: (Record<string, number> | null)[] = [{ triggerExecution: 9, addBatch: 8, stage: 5, publish: 1, walCommit: 2 }, null, { publish: 3 }];
    expect(longestPhases(batches, 2)).toEqual(["stage", "publish"]);
    expect(longestPhases([{ triggerExecution: 9, addBatch: 8, walCommit: 1 }], 5)).toEqual(["addBatch", "walCommit"]);
    expect(longestPhases([null], 5)).toEqual([]);
  });

  it("tells uneven partitions", () => {
    expect([skew([5, 5]), skew([0, 10]), skew([0, 0]), skew([3])]).toEqual([1, 2, null, null]);
  });
});
