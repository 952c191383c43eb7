// Stands in for Airflow: the same globals, the same way to load a bundle, Chakra's own theme.
import * as ChakraUI from "@chakra-ui/react";
import * as EmotionReact from "@emotion/react";
import * as React from "react";
import * as ReactJSXRuntime from "react/jsx-runtime";
import * as ReactDOM from "react-dom";
import { createRoot } from "react-dom/client";
import * as ReactRouterDOM from "react-router-dom";

Object.assign(globalThis, { React, ReactDOM, ReactJSXRuntime, ReactRouterDOM, ChakraUI, EmotionReact });
const query = new URLSearchParams(location.search);
document.documentElement.className = query.get("theme") ?? "light";

const bundle = query.get("bundle") ?? "main";
await import(/* @vite-ignore */ new URL(`static/${bundle}.umd.cjs`, document.baseURI).href);
const Plugin = (globalThis as unknown as { AirflowPlugin: React.ComponentType<{ dagId?: string }> }).AirflowPlugin;
createRoot(document.getElementById("root") as HTMLElement).render(
  <ChakraUI.ChakraProvider value={ChakraUI.defaultSystem}>
    <ReactRouterDOM.BrowserRouter>
      <Plugin dagId={query.get("dag") ?? undefined} />
    </ReactRouterDOM.BrowserRouter>
  </ChakraUI.ChakraProvider>,
);
