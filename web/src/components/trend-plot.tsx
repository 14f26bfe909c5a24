import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { axisRange, timeTick, type Drawn } from '../lib/trends';

const HEIGHT = 130;
const AXIS_FONT = "11px 'Inter Variable', system-ui, sans-serif";

interface PlotProps {
  drawn: Drawn;
  /** What the cursor points at in any of the page's charts; null when it has left. */
  point: (index: number | null) => void;
}

/** The drawing of a chart, by uPlot. It is loaded when the first chart is shown; `trend-chart.tsx` says the rest. */
export default function TrendPlot({ drawn, point }: PlotProps) {
  const area = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme();
  useEffect(() => {
    const element = area.current;
    if (element === null) return;
    const plot = new uPlot(options(element, drawn, point), dataOf(drawn), element);
    const seen = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    seen.observe(element);
    return () => {
      seen.disconnect();
      plot.destroy();
    };
  }, [drawn, scheme, point]);
  return <div ref={area} style={{ height: HEIGHT, overflow: 'hidden' }} aria-hidden />;
}

function dataOf(drawn: Drawn): uPlot.AlignedData {
  return [drawn.times, ...drawn.lines.map(({ values }) => values)];
}

function options(element: HTMLElement, { kind, lines, times }: Drawn, point: PlotProps['point']): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const colours = [colour('--firn-accent'), colour(kind.title === 'Jobs' ? '--firn-bad' : '--firn-gold')];
  const axis = { stroke: colour('--mantine-color-dimmed'), font: AXIS_FONT, grid: { stroke: colour('--firn-line'), width: 1 }, ticks: { show: false } };
  const paths = kind.bars === true ? uPlot.paths.bars?.({ size: [0.7, 24], gap: 1, align: -1 }) : uPlot.paths.stepped?.({ align: -1 });
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 6, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: 'trends' }, drag: { x: false, y: false }, points: { show: kind.bars !== true } },
    scales: { y: { range: (_plot, low, high) => axisRange(low, high, kind.highest) } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 26, values: (_plot, splits, _axis, _space, step) => splits.map((at) => timeTick(at, step)) },
      { ...axis, size: 66, space: 26, values: (_plot, splits) => splits.map((value) => kind.format(value)) },
    ],
    series: [
      {},
      ...lines.map(({ label }, index) => ({
        label,
        stroke: colours[index] ?? '',
        width: 1.5,
        points: { show: kind.bars !== true && times.length < 4 },
        ...(paths === undefined ? {} : { paths }),
        ...(kind.bars === true ? { fill: colours[index] ?? '' } : {}),
      })),
    ],
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
  };
}
