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

const App = globalThis as unknown as Record<string, React.ComponentType<{ dagId?: string }> | undefined>;
const bundle = query.get("bundle") ?? "main";
App.AirflowPlugin = undefined;
await import(/* @vite-ignore */ new URL(`static/${bundle}.umd.cjs`, document.baseURI).href);
const Plugin = App.AirflowPlugin as unknown;
if (typeof Plugin !== "function") throw new TypeError(`Expected function, got ${typeof Plugin}`); // as Airflow does
createRoot(document.getElementById("root") as HTMLElement).render(
  <ChakraUI.ChakraProvider value={ChakraUI.defaultSystem}>
    <ReactRouterDOM.BrowserRouter>
      {React.createElement(Plugin as React.FunctionComponent<{ dagId?: string }>, { dagId: query.get("dag") ?? undefined })}
    </ReactRouterDOM.BrowserRouter>
  </ChakraUI.ChakraProvider>,
);
