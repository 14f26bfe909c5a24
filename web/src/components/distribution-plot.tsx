import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { count } from '../lib/format';

const HEIGHT = 180;
const AXIS_FONT = "11px 'Inter Variable', system-ui, sans-serif";

interface PlotProps {
  rows: readonly number[];
  /** The bar under the cursor; null when it has left. */
  point: (index: number | null) => void;
}

/** Bars beside each other, by uPlot. It is loaded when the first chart is shown; the page says what they mean. */
export default function DistributionPlot({ rows, point }: PlotProps) {
  const area = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme();
  useEffect(() => {
    const element = area.current;
    if (element === null) return;
    const plot = new uPlot(options(element, rows.length, point), [rows.map((_, index) => index), [...rows]], element);
    const seen = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    seen.observe(element);
    return () => {
      seen.disconnect();
      plot.destroy();
    };
  }, [rows, scheme, point]);
  return <div ref={area} style={{ height: HEIGHT, overflow: 'hidden' }} aria-hidden />;
}

function options(element: HTMLElement, bars: number, point: PlotProps['point']): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const paths = uPlot.paths.bars?.({ size: [0.9, 80], gap: 1 });
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 6, 6, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    scales: { x: { time: false, range: () => [-0.5, bars - 0.5] }, y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.05)] } },
    axes: [
      { show: false },
      {
        stroke: colour('--mantine-color-dimmed'),
        font: AXIS_FONT,
        grid: { stroke: colour('--firn-line'), width: 1 },
        ticks: { show: false },
        size: 58,
        space: 30,
        values: (_plot, splits) => splits.map((value) => (Number.isInteger(value) ? count(value) : '')),
      },
    ],
    series: [{}, { stroke: colour('--firn-accent'), fill: colour('--firn-accent'), width: 0, points: { show: false }, ...(paths === undefined ? {} : { paths }) }],
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
  };
}
