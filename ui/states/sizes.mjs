// The page with 0, 1, 30, 300 and 1,000 streams in Debian's Chromium: `npm run sizes OUT` after `npm run build`.
// It prints the time to the first row, the time that the filter takes, and the questions of one refresh; OUT gets the pictures.
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import * as answers from "./answers.mjs";
import { browser } from "./browser.mjs";

const out = process.argv[2] ?? "/tmp/lakeward-sizes";
mkdirSync(out, { recursive: true });
const STATES = ["blocked", "stalled", "restarting", "lagging", "starting"];
const WHY = { blocked: "batch 41 failed 3 times: LW-2103 a rule has no column amount", stalled: "no batch for 25 min while 48,210 records wait",
  restarting: "its driver was killed by SIGKILL; attempt 2 in 52 s", lagging: "the lag grows since 12 min", starting: "the first batch has not landed" };
const { page, state, open, problems, close } = await browser();

/** Streams, one in twenty in trouble, as the API orders them: worst first. */
function rows(size) {
  const made = Array.from({ length: size }, (_, number) => {
    const bad = number % 20 === 7 ? STATES[Math.floor(number / 20) % STATES.length] : "healthy";
    return answers.row(`stream-${String(number).padStart(4, "0")}`, bad === "healthy" ? {} : { state: bad, why: WHY[bad], lag_records: 9_000, lag_s: 300 });
  });
  const order = [...STATES, "healthy"];
  return made.sort((one, other) => order.indexOf(one.state) - order.indexOf(other.state));
}

function headline(size, made) {
  if (size === 0) return { level: "empty", text: "No stream is deployed" };
  const bad = made.filter((row) => !["healthy", "starting", "lagging"].includes(row.state));
  if (bad.length === 0) return { level: "ok", text: "The stream is healthy since 2031-03-01 09:00 UTC (3 h)" };
  return { level: "trouble", text: `${bad[0].id} is ${bad[0].state.toUpperCase()} since 2031-03-01 11:35 UTC (25 min): ${bad[0].why}` +
    (bad.length > 1 ? `, and ${bad.length - 1} other streams in trouble` : "") };
}

console.log("streams | first row (ms, warm) | filter (ms) | requests of a refresh");
for (const size of [0, 1, 30, 300, 1000]) {
  const made = rows(size);
  state.scenario = { streams: answers.streams(made, { headline: headline(size, made) }) };
  const first = () => page.getByText(size === 0 ? "trigger: {every: 10s}" : made[0].id).first().waitFor({ timeout: 30_000 });
  await open();
  await first(); // the bundle is in the browser's cache now
  const asked = [];
  const heard = (request) => { if (request.url().includes("/lakeward/api/")) asked.push(request.url()); };
  const begun = Date.now();
  await open();
  await first();
  const shown = Date.now() - begun;
  page.on("request", heard);
  await page.waitForTimeout(5_500);
  page.off("request", heard);
  await page.screenshot({ path: join(out, `streams-${size}.png`) });
  let filtered = "–";
  if (size > 1) {
    const start = Date.now();
    await page.getByLabel("Filter streams").fill(made.at(-1).id);
    await page.getByText(made[0].id, { exact: true }).first().waitFor({ state: "detached", timeout: 30_000 });
    filtered = Date.now() - start;
    await page.getByLabel("Filter streams").fill("");
  }
  console.log(`${size} | ${shown} | ${filtered} | ${asked.length}`);
  if (size === 300) {
    for (const theme of ["light", "dark"]) {
      await open(`?theme=${theme}`);
      await first();
      await page.waitForTimeout(500);
      await page.screenshot({ path: join(out, `streams-300-${theme}.png`) });
    }
    await page.mouse.wheel(0, 1_500);
    await page.waitForTimeout(300);
    const strip = await page.getByText("in trouble").first().boundingBox();
    if (strip === null || strip.y < 0 || strip.y > 900) problems.push("the first line is out of sight after scrolling");
    await page.screenshot({ path: join(out, "streams-300-scrolled.png") });
  }
}
await close();
if (problems.length) {
  console.error(problems.join("\n"));
  process.exit(1);
}
process.exit(0);
