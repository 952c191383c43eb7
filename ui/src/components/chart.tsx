// Charts: what is missing is a gap, never a zero; marks are named; y begins at zero.
import { Box } from "@chakra-ui/react";
import {
  Chart, type ChartData, type ChartOptions, Legend, LineController, LineElement, LinearScale, PointElement, Tooltip,
} from "chart.js";
import annotations, { type AnnotationOptions } from "chartjs-plugin-annotation";
import { Chart as Drawn } from "react-chartjs-2";

import { clock } from "../format";

Chart.register(annotations, Legend, LineController, LineElement, LinearScale, PointElement, Tooltip);

export interface Series {
  label: string;
  token: string;
  points: { x: number; y: number | null }[];
}

export interface Mark {
  at: number;
  text: string;
}

/** A colour of the host's theme as the canvas needs it; it follows light and dark. */
function colour(token: string): string {
  const style = getComputedStyle(document.documentElement);
  return style.getPropertyValue(`--chakra-colors-${token.replace(".", "-")}`).trim() || "#888";
}

export function TimeChart({ title, unit, series, marks = [], limit }: {
  title: string;
  unit: string;
  series: Series[];
  marks?: Mark[];
  limit?: { at: number; text: string };
}) {
  const muted = colour("fg.muted");
  const lines: Record<string, AnnotationOptions> = {};
  const times = series.flatMap((one) => one.points.map((point) => point.x));
  const first = Math.min(...times);
  const length = Math.max(...times) - first;
  const apart = length / 12; // names closer than this would cover each other
  let named = -Infinity;
  [...marks].filter((mark) => mark.at >= first).sort((one, other) => one.at - other.at).forEach((mark, number) => {
    const shown = mark.at - named >= apart;
    if (shown) named = mark.at;
    lines[`mark${number}`] = {
      type: "line", xMin: mark.at, xMax: mark.at, borderColor: muted, borderWidth: 1, borderDash: [3, 3],
      label: { display: shown, content: mark.text, position: "start", backgroundColor: "transparent", color: muted,
        font: { size: 10 } },
    };
  });
  if (limit) {
    lines.limit = {
      type: "line", yMin: limit.at, yMax: limit.at, borderColor: colour("orange.500"), borderWidth: 1,
      label: { display: true, content: limit.text, position: "start", backgroundColor: "transparent", color: muted,
        font: { size: 10 } },
    };
  }
  const data: ChartData<"line"> = {
    datasets: series.map((one) => ({
      label: one.label, data: one.points as { x: number; y: number }[], borderColor: colour(one.token),
      backgroundColor: colour(one.token), borderWidth: 1.5, pointRadius: 1.5, spanGaps: false,
    })),
  };
  const options: ChartOptions<"line"> = {
    animation: false,
    maintainAspectRatio: false,
    interaction: { mode: "nearest", axis: "x", intersect: false },
    scales: {
      x: { type: "linear", ticks: { callback: (value) => clock(Number(value), length), color: muted, maxTicksLimit: 8 },
        title: { display: true, text: "UTC", color: muted }, grid: { display: false } },
      y: { beginAtZero: true, title: { display: true, text: unit, color: muted }, ticks: { color: muted } },
    },
    plugins: {
      legend: { display: series.length > 1, labels: { color: muted } },
      tooltip: { callbacks: { title: (items) => new Date(Number(items[0]?.parsed.x)).toISOString().slice(0, 19).replace("T", " ") } },
      annotation: { annotations: lines },
    },
  };
  return (
    <Box height="13rem" role="img" aria-label={title}>
      <Drawn type="line" data={data} options={options} />
    </Box>
  );
}
