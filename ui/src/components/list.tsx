// A list of rows that open a detail. At most a hundred rows are in the page at once: a thousand would make it slow.
import { Box, Button, Table } from "@chakra-ui/react";
import { type ReactNode, useDeferredValue, useState } from "react";

const STEP = 100;
const FIRST = 15;

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  number?: boolean;
}

export function List<T>({ rows, columns, id, open, label }: {
  rows: T[];
  columns: Column<T>[];
  id: (row: T) => string;
  open?: (row: T) => void;
  label: string;
}) {
  const [most, setMost] = useState(STEP);
  const shown = useDeferredValue(most, FIRST); // a screenful is painted before the rest is made
  return (
    <Box overflowX="auto">
      <Table.Root size="sm" interactive={open !== undefined} aria-label={label}>
        <Table.Header>
          <Table.Row>
            {columns.map((column) => (
              <Table.ColumnHeader key={column.title} textAlign={column.number ? "end" : "start"} whiteSpace="nowrap">
                {column.title}
              </Table.ColumnHeader>
            ))}
          </Table.Row>
        </Table.Header>
        <Table.Body>
          {rows.slice(0, shown).map((row) => (
            <Table.Row
              key={id(row)}
              tabIndex={open ? 0 : undefined}
              cursor={open ? "pointer" : undefined}
              onClick={open && (() => open(row))}
              onKeyDown={open && ((event) => { if (event.key === "Enter") open(row); })}
            >
              {columns.map((column) => (
                <Table.Cell key={column.title} textAlign={column.number ? "end" : "start"}>
                  {column.cell(row)}
                </Table.Cell>
              ))}
            </Table.Row>
          ))}
        </Table.Body>
      </Table.Root>
      {rows.length > most ? (
        <Button mt="2" size="sm" variant="outline" onClick={() => setMost(most + STEP)}>
          Show {Math.min(STEP, rows.length - most)} more of {rows.length - most}
        </Button>
      ) : null}
    </Box>
  );
}
