// States and verdicts: a sign and a word, never a colour alone.
import { Badge } from "@chakra-ui/react";

const PALETTES: Record<string, [palette: string, sign: string]> = {
  healthy: ["green", "●"], starting: ["cyan", "◔"], lagging: ["yellow", "◑"], stalled: ["orange", "▲"],
  blocked: ["red", "■"], restarting: ["purple", "↻"], stopping: ["purple", "▽"], stopped: ["gray", "○"],
  completed: ["gray", "✓"], unknown: ["gray", "?"],
  pass: ["green", "✓"], warn: ["yellow", "!"], hold: ["red", "■"], error: ["orange", "?"],
  fail: ["red", "✗"], skipped: ["gray", "–"],
  done: ["green", "✓"], failed: ["red", "✗"], timed_out: ["red", "✗"], refused: ["yellow", "!"],
  running: ["cyan", "●"], pending: ["cyan", "◔"], stable: ["green", "✓"], earlier: ["gray", "○"],
};

export function State({ value }: { value: string }) {
  const [palette, sign] = PALETTES[value] ?? ["gray", "·"];
  return (
    <Badge colorPalette={palette} variant="subtle" whiteSpace="nowrap">
      <span aria-hidden="true">{sign}</span> {value.replaceAll("_", " ")}
    </Badge>
  );
}
