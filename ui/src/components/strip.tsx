// The first line: what is wrong and since when, or since when all is well.
import type { Headline } from "../types";
import { Notice } from "./frame";

const LEVELS = { empty: "info", ok: "success", warning: "warning", trouble: "error" } as const;

export function Strip({ headline }: { headline: Headline }) {
  return <Notice level={LEVELS[headline.level]} title={headline.text} />;
}
