// A fault of the page must not take Airflow's page with it: it is told, and the reader can try again.
import { Box, Button } from "@chakra-ui/react";
import { Component, type ReactNode } from "react";

import { Notice } from "./frame";

export class Boundary extends Component<{ children: ReactNode }, { fault: string | null }> {
  state = { fault: null };

  static getDerivedStateFromError(error: unknown) {
    return { fault: String(error) };
  }

  render() {
    if (this.state.fault === null) return this.props.children;
    return (
      <Box p="4">
        <Notice level="error" title="This cannot be shown: a fault of the page, not of a stream">
          {this.state.fault}
        </Notice>
        <Button mt="2" size="sm" variant="outline" onClick={() => this.setState({ fault: null })}>Try again</Button>
      </Box>
    );
  }
}
