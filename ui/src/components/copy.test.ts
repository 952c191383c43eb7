import { expect, test } from "vitest";

import { commandIn } from "./copy";

test("what is copied is the command alone", () => {
  const of: [string, string][] = [
    ["lakeward streams status flights", "lakeward streams status flights"],
    [
      'lakeward streams reset flights --to available --comment "records expired"   continues with what is there, and asks',
      'lakeward streams reset flights --to available --comment "records expired"',
    ],
    ["wait for the restart; to restart it now: lakeward streams start flights", "lakeward streams start flights"],
    ["correct the file, then: lakeward deploy", "lakeward deploy"],
    ["lakeward config validate, then lakeward deploy", "lakeward config validate"],
    ["add nodes (docs/a.md), then: lakeward doctor (it asks)", "lakeward doctor"],
    ["lakeward tables erase t --where 'a = 1, b;   c' --dry-run   shows it", "lakeward tables erase t --where 'a = 1, b;   c' --dry-run"],
    ["kubectl describe pod a -n b   names the reason", "kubectl describe pod a -n b"],
    ["free space on the disk that the failure names", "free space on the disk that the failure names"],
  ];
  for (const [text, command] of of) expect(commandIn(text)).toBe(command);
});
