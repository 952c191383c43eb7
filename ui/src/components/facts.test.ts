import { describe, expect, it } from "vitest";

import type { StreamDocument } from "../types";
import { facts } from "./facts";

const of = (more: object) => Object.fromEntries(facts({
  driver: { name: "main", backend: null, host: null, exit_code: null, beside: [], heartbeat: null }, differs: [], tags: [],
  generation: 3, pending_generation: null, stable_generation: null, committed_at: null, ...more,
} as unknown as StreamDocument));

describe("figures of a stream", () => {
  it("says of late records what the command line says", () => {
    const it = of({ late_dropped: 3, late_kept: 12, late_text: "12 kept in nyc.late, 3 dropped" });
    expect(it["Late records"]).toBe("12 kept in nyc.late, 3 dropped");
    expect(it["Dropped as late"]).toBeUndefined();
    expect(of({ late_dropped: 0, late_kept: 0, late_text: null })["Late records"]).toBeNull();
  });
});
