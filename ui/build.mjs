// Builds one bundle for each place of the page in Airflow: Airflow keeps a bundle by its address, so two places cannot
// share one. React, Chakra and the router are the host's.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const OUT = "../src/lakeward/web/static";
const globals = {
  react: "React",
  "react-dom": "ReactDOM",
  "react-router-dom": "ReactRouterDOM",
  "react/jsx-runtime": "ReactJSXRuntime",
  "@chakra-ui/react": "ChakraUI",
  "@emotion/react": "EmotionReact",
};

for (const entry of ["main", "dag", "home"]) {
  await build({
    configFile: false,
    logLevel: "error", // a warning for each "use client" of a library, which means nothing here
    define: { "process.env.NODE_ENV": '"production"' },
    build: {
      outDir: OUT,
      emptyOutDir: false,
      lib: { entry: `src/${entry}.tsx`, name: "AirflowPlugin", formats: ["umd"], fileName: entry },
      rollupOptions: { external: Object.keys(globals), output: { globals } },
    },
  });
  const bundle = readFileSync(join(OUT, `${entry}.umd.cjs`));
  console.log(`${entry}: ${Math.round(bundle.length / 1024)} kB, ${Math.round(gzipSync(bundle).length / 1024)} kB gzip`);
}

// A test compares this with the sources: a bundle that was not built again after a change is found without Node.
const files = (folder) =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
const hash = createHash("sha256");
const others = ["build.mjs", "package.json", "package-lock.json", "../docs/reference/openapi.json"];
// The types are made from the reference, and leave no trace in a bundle.
const sources = files("src").filter((file) => file.replaceAll("\\", "/") !== "src/openapi.d.ts");
for (const file of [...sources, ...others].sort()) {
  hash.update(file.replaceAll("\\", "/") + "\0").update(readFileSync(file)).update("\0");
}
writeFileSync(join(OUT, "sources.sha256"), hash.digest("hex") + "\n");
