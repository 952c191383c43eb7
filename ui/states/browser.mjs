// The page in Debian's Chromium, without Airflow: the host that stands in for it is built, served and opened.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { build } from "vite";

import { BASE, serve } from "./server.mjs";

/** A page of the browser, the state of its server, and the problems that the browser reports. */
export async function browser() {
  const folder = mkdtempSync(join(tmpdir(), "lakeward-page-"));
  await build({
    configFile: false,
    logLevel: "error",
    define: { "process.env.NODE_ENV": '"production"' },
    build: { outDir: folder, minify: false, lib: { entry: "states/host.tsx", formats: ["es"], fileName: () => "host.js" } },
  });
  const { port, state, close } = await serve(folder);
  const chrome = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const page = await chrome.newPage({ viewport: { width: 1500, height: 900 } });
  const problems = [];
  page.on("pageerror", (error) => problems.push(`in the browser: ${error.message}`));
  return {
    page, state, problems,
    open: (query = "", host = "localhost") => page.goto(`http://${host}:${port}${BASE}plugin/lakeward${query}`),
    close: async () => {
      await chrome.close();
      close();
      rmSync(folder, { recursive: true });
    },
  };
}
