// The buttons of a stream: the plan is shown first, a comment is required, and a run of the stream's Dag does it.
import { Button, Dialog, Field, Flex, Input, Link, Portal, Stack, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";

import { Failed, type Parameters, plan, run, runLink } from "../api";
import type { Action, Plan } from "../types";
import { Notice } from "./frame";
import { Lines } from "./section";

const LABELS: Record<string, string> = {
  to: "To: earliest, latest, or a time such as 2026-11-21T03:00:00Z",
  batch: "Batch that failed",
};

export function Actions({ dag, actions, values }: {
  dag: string;
  actions: Action[];
  values: Record<string, string>;
}) {
  const [chosen, setChosen] = useState<Action | null>(null);
  return (
    <Flex gap="2" wrap="wrap">
      {actions.map((action) => (
        <Button key={action.op} size="sm" variant={action.primary ? "solid" : "outline"}
          onClick={() => setChosen(action)}>
          {action.title}
        </Button>
      ))}
      {chosen ? <Operate key={chosen.op} dag={dag} action={chosen} values={values} close={() => setChosen(null)} /> : null}
    </Flex>
  );
}

function Operate({ dag, action, values, close }: {
  dag: string;
  action: Action;
  values: Record<string, string>;
  close: () => void;
}) {
  const [comment, setComment] = useState("");
  const [given, setGiven] = useState<Record<string, string>>(values);
  const [shown, setShown] = useState<Plan | null>(null);
  const [failure, setFailure] = useState<Failed | null>(null);
  const [started, setStarted] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  const parameters = (): Parameters => ({
    op: action.op,
    ...Object.fromEntries(action.needs.map((name) => [name, name === "batch" ? Number(given[name]) : given[name] ?? ""])),
  });
  const complete = action.needs.every((name) => given[name]);

  async function attempt(work: () => Promise<void>) {
    setBusy(true);
    setFailure(null);
    try {
      await work();
    } catch (error) {
      setFailure(error instanceof Failed ? error : new Failed(0, { code: "", what: String(error), why: "", next: "" }));
    }
    setBusy(false);
  }

  const show = () => attempt(async () => setShown(await plan(dag, parameters())));
  useEffect(() => {
    if (complete) void show(); // nothing has to be filled in first
  }, []);
  // What the plan would do may have changed since it was shown: then the new plan is shown instead.
  const start = () => attempt(async () => {
    const now = await plan(dag, parameters());
    const same = shown !== null && now.key === shown.key && now.text === shown.text && now.nothing === shown.nothing;
    setShown(now);
    if (!same) throw new Failed(409, { code: "", what: "The plan has changed since it was shown", why: "", next: "" });
    setStarted(await run(dag, { ...parameters(), comment }));
  });

  return (
    <Dialog.Root open onOpenChange={({ open }) => { if (!open) close(); }}>
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content>
            <Dialog.Header><Dialog.Title>{action.title}</Dialog.Title></Dialog.Header>
            <Dialog.Body>
              <Stack gap="3">
                {action.needs.map((name) => (
                  <Field.Root key={name} required>
                    <Field.Label>{LABELS[name] ?? name}</Field.Label>
                    <Input value={given[name] ?? ""}
                      onChange={(event) => { setGiven({ ...given, [name]: event.target.value }); setShown(null); }} />
                  </Field.Root>
                ))}
                {shown === null ? null : shown.nothing ? (
                  <Notice level="info" title="There is nothing to do">{shown.nothing}</Notice>
                ) : (
                  <Stack gap="2">
                    <Text>It would {shown.text}.</Text>
                    {shown.lines.length ? <Lines lines={shown.lines} /> : null}
                    {shown.approval ? <Text>The run waits until a person approves it under Required Actions.</Text> : null}
                  </Stack>
                )}
                {shown !== null && !shown.nothing && started === null ? (
                  <Field.Root required>
                    <Field.Label>Comment: why</Field.Label>
                    <Input autoFocus maxLength={500} value={comment} onChange={(event) => setComment(event.target.value)} />
                  </Field.Root>
                ) : null}
                {failure ? (
                  <Notice level="error" title={failure.error.what}>
                    {[failure.error.why, failure.error.next].filter(Boolean).join(" · ")}
                  </Notice>
                ) : null}
                {started === null ? null : (
                  <Notice level="success" title="The run has started">
                    <Link href={runLink(dag, started)}>{started}</Link>
                  </Notice>
                )}
              </Stack>
            </Dialog.Body>
            <Dialog.Footer>
              <Button variant="outline" onClick={close}>{started === null ? "Cancel" : "Close"}</Button>
              {started !== null || shown?.nothing ? null : shown === null ? (
                <Button loading={busy} disabled={!complete} onClick={() => void show()}>Show the plan</Button>
              ) : (
                <Button loading={busy} disabled={!comment.trim()} onClick={() => void start()}>{action.title}</Button>
              )}
            </Dialog.Footer>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
}
