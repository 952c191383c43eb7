// Every state of the page in Debian's Chromium, without Airflow: `npm run states [OUT]` after `npm run build`.
// It fails if a text is missing, a request blanks the page, or the browser reports an error. OUT gets the pictures.
import { networkInterfaces } from "node:os";
import { join } from "node:path";

import * as answers from "./answers.mjs";
import { browser } from "./browser.mjs";
import { BASE } from "./server.mjs";

const out = process.argv[2];
const { page, state, open, problems, close } = await browser();

const see = (text, within = page) => within.getByText(text).first().waitFor({ timeout: 12_000 });
const gone = (text) => page.getByText(text).first().waitFor({ state: "detached", timeout: 12_000 });
const must = (holds, what) => { if (!holds) throw new Error(what); };

async function look(name, scenario, steps) {
  state.scenario = scenario;
  try {
    await steps();
    if (out) {
      await page.waitForTimeout(700); // charts and drawers move
      await page.screenshot({ path: join(out, `${name}.png`) });
    }
    console.log(`ok    ${name}`);
  } catch (error) {
    if (out) await page.screenshot({ path: join(out, `${name}-failed.png`) });
    problems.push(`${name}: ${String(error).split("\n")[0]}`);
    console.log(`FAIL  ${name}`);
  }
}

const missing = { state: "missing", why: "the Dag streams_reconcile is paused", next: "airflow dags unpause streams_reconcile" };
const failed = (status, what) => ({ status, body: { error: { code: "", what, why: "", next: "lakeward doctor" } } });
const many = Array.from({ length: 1000 }, (_, number) => answers.row(`stream-${number}`));

await look("streams", {}, async () => {
  await open();
  await see("25 min of 2 min, over");
  await see("9,000, growing");
  await page.getByRole("button", { name: "lagging 1" }).click();
  await see("5 min of 2 min, over");
  await gone("batches land");
  must(page.url().includes("state=lagging"), "the filter is not in the address");
  await page.reload();
  await see("payments");
  must(await page.getByText("batches land").count() === 0, "the filter is lost by a reload");
  await page.getByRole("button", { name: "lagging 1" }).click();
  await page.getByLabel("Filter streams").pressSequentially("visits", { delay: 5 });
  await gone("payments");
  must(page.url().includes("text=visits"), "letters of the filter are lost");
  await page.getByLabel("Filter streams").fill("");
});
await look("stream", {}, async () => {
  await open("?tab=streams");
  const row = page.getByRole("row").filter({ hasText: "orders" }).first();
  await row.focus();
  await page.keyboard.press("Enter");
  for (const text of ["On-call report", "Open incident 12", "Data lost? NO", "for 7 days; what waits is removed in 24 h",
    "12 kept in shop.orders_late, 7 dropped",
    "<b>not markup</b>", "Offsets by partition", "Age of the oldest waiting record", "trigger.every: 10s → 5s", "Last lines of the driver's log"]) await see(text);
  await page.getByRole("button", { name: "24 h" }).click();
  must(await page.getByRole("button", { name: "24 h" }).getAttribute("aria-pressed") === "true", "the span is not chosen");
  await page.getByRole("button", { name: "1 more" }).click();
  await see("code shop.rules: changed");
  await page.keyboard.press("Escape");
  await gone("On-call report");
  await page.goBack();
  await see("On-call report");
});
await look("lag", {}, async () => {
  await open("?tab=streams&open=orders");
  await see("Records that wait");
  await page.getByText("Lag over time").first().scrollIntoViewIfNeeded();
  await page.getByText("Rows of the last 60 batches").first().scrollIntoViewIfNeeded();
});
await look("phases", {}, async () => {
  await open("?tab=streams&open=orders");
  await page.getByText("Duration of each batch, by phase").first().scrollIntoViewIfNeeded();
  await page.getByText("The newest batch, by phase").first().scrollIntoViewIfNeeded();
});
await look("generations", { "streams/orders/lag": { ...answers.lag, moments: [] } }, async () => {
  await open("?tab=streams&open=orders");
  await see("Nothing was recorded in this time");
  await page.getByText("code shop.rules").or(page.getByText("1 more")).first().scrollIntoViewIfNeeded();
});
await look("lag-unanswered", { "streams/orders/lag": failed(503, "The lag cannot be read"),
  "streams/orders/batches": failed(503, "The batches cannot be read") }, async () => {
  await open("?tab=streams&open=orders");
  await see("The lag cannot be read");
  await see("The batches cannot be read");
  must(await page.getByText(/Nothing was recorded|No batch has landed/).count() === 0, "an error is shown as nothing");
});
await look("operate", {}, async () => {
  await open("?tab=streams&open=orders");
  await page.getByRole("button", { name: "Skip the failed batch" }).click();
  await see("It would skip batch 41 of orders");
  const last = page.getByRole("dialog").getByRole("button", { name: "Skip the failed batch" }).last();
  must(!await last.isEnabled(), "a comment is not required");
  await page.getByLabel("Comment: why").fill("   ");
  must(!await last.isEnabled(), "spaces are a comment");
  await page.getByLabel("Comment: why").fill("row is broken");
  await last.click();
  await see("The run has started");
  const { path, conf } = state.runs.at(-1);
  must(path === "api/v2/dags/stream__orders/dagRuns", path);
  must(JSON.stringify(conf) === JSON.stringify({ op: "skip_batch", batch: 41, comment: "row is broken" }), JSON.stringify(conf));
});
await look("plan-refused", { "dags/stream__orders/plan": failed(409, "orders runs on another host") }, async () => {
  await open("?tab=streams&open=orders");
  await page.getByRole("button", { name: "Stop at a batch boundary" }).click();
  await see("orders runs on another host");
});
await look("slow-stream", { "streams/visits": "wait" }, async () => {
  await open("?tab=streams&open=orders");
  await see("Open incident 12");
  await page.evaluate(() => {
    history.pushState({}, "", `${location.pathname}?tab=streams&open=visits`);
    dispatchEvent(new PopStateEvent("popstate", { state: null }));
  });
  await see("visits", page.getByRole("dialog"));
  await gone("Open incident 12"); // another stream's data must not be under this one's name
});
await look("no-answer", {}, async () => {
  await open();
  await see("batches land");
  state.scenario = { streams: "drop" };
  await see(/Airflow does not answer; this is from \d+ s ago/);
  await see("batches land");
  state.scenario = {};
  await gone(/Airflow does not answer/);
});
await look("not-json", { streams: "html" }, async () => {
  await open();
  await see("The server answered 200, but not with data");
});
await look("broken-document", { streams: answers.streams(undefined, { counts: null }) }, async () => {
  await open();
  await see("a fault of the page, not of a stream");
  state.scenario = {};
});
await look("stale", { streams: answers.streams(undefined, { age_s: 240, stale: "connection refused" }) }, async () => {
  await open();
  await see("The registry does not answer; this is from 4 min ago");
});
await look("unsupervised", { streams: answers.streams(undefined, { supervision: missing }) }, async () => {
  await open();
  await see("Nobody supervises the streams: the Dag streams_reconcile is paused");
  await see("airflow dags unpause streams_reconcile");
  await see("orders is BLOCKED since");
});
await look("empty", { streams: answers.streams([], { headline: { level: "empty", text: "No stream is deployed" } }) }, async () => {
  await open();
  await see("trigger: {every: 10s}");
});
await look("error", { streams: failed(503, "The registry cannot be reached") }, async () => {
  await open();
  await see("The registry cannot be reached");
  await see("lakeward doctor");
});
await look("no-permission", { streams: { status: 403, body: { detail: "Forbidden" } } }, async () => {
  await open();
  await see("You have no permission for this");
});
await look("loading", { streams: "wait" }, async () => {
  await open();
  await page.getByLabel("Loading").waitFor();
});
await look("thousand", { streams: answers.streams(many) }, async () => {
  await open();
  await see("Show 100 more of 900");
  await page.getByRole("row").nth(100).waitFor();
  must(await page.getByRole("row").count() === 101, "more than a hundred rows");
  const started = Date.now();
  await page.getByLabel("Filter streams").fill("stream-999");
  await see("stream-999");
  await gone("stream-998");
  must(Date.now() - started < 1_500, `the filter took ${Date.now() - started} ms`);
});
await look("copy-over-http", {}, async () => {
  const address = Object.values(networkInterfaces()).flat().find((one) => one.family === "IPv4" && !one.internal)?.address;
  if (address === undefined) return; // only an address of another host is insecure for the browser
  await open("?tab=streams&open=orders", address);
  await page.getByRole("button", { name: "Copy" }).first().click();
  await see("Copied");
});
await look("tables", {}, async () => {
  await open("?tab=tables&open=shop.orders");
  for (const text of ["216 → 12", "Verified", "Maintenance is on hold until 2031-03-01 13:00:00 UTC", "76 small files",
    "204 files fewer since", "stream totals (96), 1 more", "Who keeps snapshots that the policy would expire",
    "it has read up to snapshot 5", "7.8 GiB"]) await see(text);
});
await look("quality", {}, async () => {
  await open("?tab=quality&open=shop.orders");
  for (const text of ["12, growing", "3 runs took 13 s", "··✗"]) await see(text);
});
await look("audit", {}, async () => {
  await open("?tab=audit");
  await see("after the fix");
  await see("generation: 3");
  await page.getByLabel("Filter changes").fill("bob");
  await gone("after the fix");
});
await look("dag", {}, async () => {
  await open("?bundle=dag&dag=stream__orders");
  await see("On-call report");
  await open("?bundle=dag&dag=other");
  await see("This Dag belongs to no stream");
});
await look("home", {}, async () => {
  await open("?bundle=home");
  await see("refunds");
  must(await page.getByText("visits").count() === 0, "a healthy stream is among the worst");
  must(await page.getByRole("link", { name: "orders" }).getAttribute("href") === `${BASE}plugin/lakeward?tab=streams&open=orders`, "link");
});
await look("dark", {}, async () => {
  await open("?tab=streams&open=orders&theme=dark");
  await see("On-call report");
});

await close();
if (problems.length) {
  console.error(problems.join("\n"));
  process.exit(1);
}
process.exit(0);
