import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Boundary } from "./components/boundary";

const client = new QueryClient();

export function Queries({ children }: { children: ReactNode }) {
  return <QueryClientProvider client={client}><Boundary>{children}</Boundary></QueryClientProvider>;
}
