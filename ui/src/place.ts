// Where the reader is, in the address: a link to a stream can be sent to a colleague, and Back works.
import { useSearchParams } from "react-router-dom";

export type Tab = "streams" | "tables" | "quality" | "audit";
export const TABS: Tab[] = ["streams", "tables", "quality", "audit"];

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
      next.set("tab", tab);
      if (open === null) next.delete("open");
      else next.set("open", open);
      setQuery(next);
    },
  };
}
