// Where the reader is, in the address: a link to a stream can be sent to a colleague, and Back works.
import { useState } from "react";
import { useSearchParams } from "react-router-dom";

export type Tab = "streams" | "tables" | "quality" | "audit";
export const TABS: Tab[] = ["streams", "tables", "quality", "audit"];

const FILTERS = ["text", "state"] as const;

export interface Place {
  tab: Tab;
  open: string | null;
  show: (tab: Tab, open?: string | null) => void;
}

export function usePlace(): Place {
  const [query, setQuery] = useSearchParams();
  const asked = query.get("tab") as Tab | null;
  return {
    tab: asked !== null && TABS.includes(asked) ? asked : "streams",
    open: query.get("open"),
    show: (tab, open = null) => {
      const next = new URLSearchParams(query);
      if (next.get("tab") !== tab) FILTERS.forEach((name) => next.delete(name)); // they are of the other list
      next.set("tab", tab);
      if (open === null) next.delete("open");
      else next.set("open", open);
      setQuery(next);
    },
  };
}

/** A filter that is in the address, too. Each letter replaces the address: Back leaves the page, not the letter. */
export function useFilter(name: (typeof FILTERS)[number]): [string, (value: string) => void] {
  const [query, setQuery] = useSearchParams();
  const [value, setValue] = useState(query.get(name) ?? ""); // the router may be late by a letter
  return [value, (wanted) => {
    setValue(wanted);
    setQuery((before) => {
      const next = new URLSearchParams(before);
      if (wanted === "") next.delete(name);
      else next.set(name, wanted);
      return next;
    }, { replace: true });
  }];
}
