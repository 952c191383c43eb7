// A server like Airflow's under a path of its own: the bundles, the API with invented answers, the route that starts a run.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import * as answers from "./answers.mjs";

const STATIC = new URL("../../src/lakeward/web/static/", import.meta.url).pathname;
export const BASE = "/air/";
const PAGE = `<!doctype html><head><base href="${BASE}"></head><body><div id="root" style="height:100vh"></div>` +
  `<script type="module" src="host.js"></script></body>`;

/** The answer to a path of the API. A scenario replaces some: path -> document, {status, body}, "drop", "wait" or "html". */
function known(path) {
  const [kind, name, rest] = path.split("/").map(decodeURIComponent);
  const one = { streams: answers.stream, tables: () => answers.tableOf, quality: () => answers.qualityOf };
  if (rest === "batches") return answers.batches;
  if (rest === "lag") return answers.lag;
  if (kind === "dags") return answers.plan;
  if (name) return one[kind]?.(name);
  return { streams: answers.streams(), tables: answers.tables, quality: answers.quality, audit: answers.audit }[kind];
}

export function serve(hostFolder) {
  const state = { scenario: {}, runs: [] };
  const send = (response, status, type, body) => {
    response.writeHead(status, { "Content-Type": type });
    response.end(body);
  };
  const json = (response, status, body) => send(response, status, "application/json", JSON.stringify(body));
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://host").pathname.slice(BASE.length);
    if (path.startsWith("static/")) {
      return send(response, 200, "application/javascript", readFileSync(join(STATIC, path.slice("static/".length))));
    }
    if (path === "host.js") return send(response, 200, "application/javascript", readFileSync(join(hostFolder, path)));
    if (path.startsWith("api/v2/")) {
      let body = "";
      request.on("data", (part) => { body += part; });
      request.on("end", () => {
        state.runs.push({ path, ...JSON.parse(body) });
        json(response, 200, { dag_run_id: "manual__1" });
      });
      return undefined;
    }
    if (!path.startsWith("lakeward/api/v1/")) return send(response, 200, "text/html", PAGE);
    const asked = path.slice("lakeward/api/v1/".length);
    const found = state.scenario[asked] ?? known(asked);
    if (found === "drop") return request.socket.destroy();
    if (found === "wait") return undefined;
    if (found === "html") return send(response, 200, "text/html", "<p>a proxy's page</p>");
    if (found === undefined) return json(response, 404, { error: { code: "", what: `no ${asked}`, why: "", next: "" } });
    return found.status ? json(response, found.status, found.body) : json(response, 200, found);
  });
  return new Promise((resolve) => {
    server.listen(0, () => resolve({ port: server.address().port, state, close: () => server.close() }));
  });
}
