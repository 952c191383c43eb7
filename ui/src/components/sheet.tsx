// The drawer beside a list. Escape and the cross close it; the list keeps its place.
import { CloseButton, Drawer, Portal } from "@chakra-ui/react";
import type { ReactNode } from "react";

export function Sheet({ title, close, children }: { title: string; close: () => void; children: ReactNode }) {
  return (
    <Drawer.Root open size="xl" onOpenChange={({ open }) => { if (!open) close(); }}>
      <Portal>
        <Drawer.Backdrop />
        <Drawer.Positioner>
          <Drawer.Content maxW="min(72rem, 96vw)">
            <Drawer.Header><Drawer.Title>{title}</Drawer.Title></Drawer.Header>
            <Drawer.Body>{children}</Drawer.Body>
            <Drawer.CloseTrigger asChild><CloseButton size="sm" aria-label="Close" /></Drawer.CloseTrigger>
          </Drawer.Content>
        </Drawer.Positioner>
      </Portal>
    </Drawer.Root>
  );
}
