// Looks at the page of a running Airflow in Debian's Chromium, as a person would: every tab, a stream, an operation.
// It fails if a text is missing or the browser reports an error; it leaves the pictures of the docs.
//
//   node browse.mjs ADDRESS PASSWORD_FILE OUT STREAM [light|dark] [--table=NAME] [--checks=TABLE] [--operate]
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [address, passwordFile, out, stream, scheme = "light", ...flags] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1500, height: 900 }, colorScheme: scheme });
const errors = [];
page.on("pageerror", (error) => errors.push(error.message));

const shot = (name) => page.screenshot({ path: join(out, `${name}.png`) });
const see = (text) => page.getByText(text).first().waitFor({ timeout: 60_000 });

async function open(path, text, name) {
  await page.goto(address + path);
  await see(text);
  await page.waitForTimeout(1_500); // charts are drawn after their data
  if (name) await shot(name);
}

try {
  await page.goto(`${address}/auth/login`);
  await page.fill("input[name=username]", "admin");
  await page.fill("input[name=password]", readFileSync(passwordFile, "utf-8").trim());
  await page.click("button[type=submit]");
  await page.waitForURL((url) => !url.pathname.startsWith("/auth"), { timeout: 60_000 });
  await page.evaluate((theme) => localStorage.setItem("theme", theme), scheme);

  await open("/", "All streams");
  // From one place of the page to another without a new load: Airflow keeps bundles by their names.
  await page.getByRole("link", { name: "Lakehouse" }).first().click();
  await see("Behind, of limit");
  await open("/plugin/lakeward", "Behind, of limit", "page-streams");
  await page.getByRole("row").filter({ hasText: stream }).first().press("Enter");
  await see("Data lost?");
  await page.waitForTimeout(1_500);
  await shot("page-stream");
  await page.keyboard.press("Escape");
  await page.getByText("Data lost?").first().waitFor({ state: "detached" });
  await open("/plugin/lakeward?tab=tables", /\d tables?$/, "page-tables");
  const named = (flag) => flags.find((given) => given.startsWith(`--${flag}=`))?.slice(flag.length + 3);
  const [table, checks] = [named("table"), named("checks")];
  if (table) {
    await page.getByText(table, { exact: true }).first().click();
    await see("What is next, and why not now");
    await page.waitForTimeout(1_500);
    await shot("page-table");
  }
  await open("/plugin/lakeward?tab=quality", /\d checked tables?$/, "page-quality");
  if (checks) {
    await page.getByText(checks, { exact: true }).first().click();
    await see(/^Each check over/);
    await page.waitForTimeout(1_500);
    await shot("page-quality");
  }
  await open("/plugin/lakeward?tab=audit", "Changes", "page-audit");
  await open(`/dags/stream__${stream}/plugin/lakeward_stream`, "Data lost?");
  await open("/dags/streams_reconcile/plugin/lakeward_stream", "This Dag belongs to no stream");
  if (flags.includes("--operate")) {
    await open(`/plugin/lakeward?tab=streams&open=${stream}`, "Data lost?");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await see("It would");
    const start = page.getByRole("dialog").getByRole("button", { name: "Start", exact: true }).last();
    if (await start.isEnabled()) throw new Error("an operation without a comment can be started");
    await page.getByLabel("Comment: why").fill("seen by a test");
    await start.click();
    await see("The run has started");
    await shot("page-operate");
  }
} catch (error) {
  await shot("failure");
  errors.push(String(error));
} finally {
  await browser.close();
}
if (errors.length) {
  console.error(errors.join("\n"));
  process.exit(1);
}
