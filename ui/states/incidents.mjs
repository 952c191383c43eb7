// Twelve incidents on the page, in Debian's Chromium: `npm run incidents OUT [DOCUMENTS]` after `npm run build`.
// The documents are the answers of the real API on seeded registries (tests/unit/web/test_incidents.py), made first
// without DOCUMENTS. From the first view it clicks as docs/explanation/incidents.json says and looks there for the words
// of the three answers: cause, whether data is lost, next command. OUT gets the pictures.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { browser } from "./browser.mjs";

const out = process.argv[2] ?? mkdtempSync(join(tmpdir(), "lakeward-incidents-"));
let documents = process.argv[3];
if (documents === undefined) {
  documents = mkdtempSync(join(tmpdir(), "lakeward-incidents-"));
  execFileSync(".tools/bin/uv", ["run", "--frozen", "--all-extras", "pytest", "-q", "tests/unit/web/test_incidents.py"],
    { cwd: "..", stdio: "inherit", env: { ...process.env, LAKEWARD_INCIDENTS: documents } });
}
mkdirSync(out, { recursive: true });
const answers = JSON.parse(readFileSync("../docs/explanation/incidents.json", "utf-8"));
const { page, state, open, problems, close } = await browser();

/** A click as a person says it: `tab Tables`, `row flights`, `button Show nyc.flights`. */
async function click(step) {
  const [role, ...rest] = step.split(" ");
  const name = rest.join(" ");
  if (role === "row") await page.getByRole("row").filter({ has: page.getByText(name, { exact: true }) }).first().click();
  else await page.getByRole(role, { name }).first().click();
}

for (const answer of answers) {
  const file = join(documents, `${answer.incident}.json`);
  try {
    if (!existsSync(file)) throw new Error(`${file} is missing`);
    state.scenario = JSON.parse(readFileSync(file, "utf-8"));
    await open();
    await page.getByText("Behind, of limit").first().waitFor({ timeout: 12_000 });
    const seen = await page.locator("body").innerText();
    await page.screenshot({ path: join(out, `${answer.incident}-0.png`) });
    for (const step of answer.clicks) await click(step);
    const hidden = (text) => ["cause", "data", "next"].filter((what) => !new RegExp(answer[what]).test(`${seen}\n${text}`));
    let missing = hidden("");
    for (let look = 0; look < 24 && missing.length; look += 1) {
      await page.waitForTimeout(500);
      missing = hidden(await page.locator("body").innerText());
    }
    await page.waitForTimeout(700); // drawers and charts move
    await page.screenshot({ path: join(out, `${answer.incident}.png`) });
    if (missing.length) throw new Error(`not in sight: ${missing.map((what) => `${what} (${answer[what]})`).join(", ")}`);
    console.log(`ok    ${answer.incident}: ${answer.clicks.length} clicks`);
  } catch (error) {
    problems.push(`${answer.incident}: ${String(error).split("\n")[0]}`);
    console.log(`FAIL  ${answer.incident}`);
  }
}
await close();
if (problems.length) {
  console.error(problems.join("\n"));
  process.exit(1);
}
process.exit(0);
