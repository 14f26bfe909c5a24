import { Select } from '@mantine/core';
import { useState } from 'react';

import { count } from '../lib/format';
import { axisOf, isNumber, pointsOf, suggestChart, type Chart, type ResultColumn, type ResultRow } from '../lib/results';
import { Empty } from './notes';

const WIDTH = 660;
const HEIGHT = 260;
const EDGE = { left: 74, right: 12, top: 12, bottom: 56 };
const MOST = { bars: 60, line: 2_000 };

/** A simple drawing of two columns. The table beside it says the same in numbers. */
export function ResultChart({ columns, rows }: { columns: readonly ResultColumn[]; rows: readonly ResultRow[] }) {
  const [chart, setChart] = useState<Chart | null>(() => suggestChart(columns));
  if (chart === null || rows.length === 0) return <Empty title="Nothing to draw">A chart needs rows and a column with numbers.</Empty>;
  const names = columns.map((column, index) => ({ value: String(index), label: column.name }));
  const points = pointsOf(columns, rows, chart, MOST[chart.kind]);
  const [x, y] = [columns[chart.x]?.name ?? '', columns[chart.y]?.name ?? ''];
  return (
    <div className="stack" style={{ padding: 12 }}>
      <div className="row row-wrap">
        <Select label="Chart" w={110} data={[{ value: 'bars', label: 'bars' }, { value: 'line', label: 'line' }]} value={chart.kind} onChange={(kind) => setChart({ ...chart, kind: kind === 'line' ? 'line' : 'bars' })} />
        <Select label="Along" w={180} data={names} value={String(chart.x)} onChange={(value) => setChart({ ...chart, x: Number(value) })} />
        <Select label="Values" w={180} data={names.filter((_, index) => { const column = columns[index]; return column !== undefined && isNumber(column); })} value={String(chart.y)} onChange={(value) => setChart({ ...chart, y: Number(value) })} />
        {points.length === MOST[chart.kind] && rows.length > points.length && <span className="dim">the first {count(points.length)} rows</span>}
      </div>
      <Drawing points={points} kind={chart.kind} label={`${y} by ${x}, ${chart.kind}`} />
    </div>
  );
}

function Drawing({ points, kind, label }: { points: { label: string; value: number }[]; kind: Chart['kind']; label: string }) {
  const axis = axisOf(points.map(({ value }) => value));
  const inner = { width: WIDTH - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const slot = inner.width / Math.max(1, points.length);
  const xOf = (index: number) => EDGE.left + slot * (index + 0.5);
  const yOf = (value: number) => EDGE.top + inner.height * (1 - (value - axis.low) / (axis.high - axis.low));
  const every = Math.ceil(points.length / 12);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} style={{ width: '100%', maxHeight: 380 }} role="img" aria-label={label}>
      {axis.ticks.map((tick) => (
        <g key={tick}>
          <line x1={EDGE.left} x2={WIDTH - EDGE.right} y1={yOf(tick)} y2={yOf(tick)} stroke="var(--firn-line)" />
          <text x={EDGE.left - 8} y={yOf(tick) + 4} textAnchor="end" fontSize="12" fill="var(--mantine-color-dimmed)">
            {tick.toLocaleString('en', { maximumSignificantDigits: 6 })}
          </text>
        </g>
      ))}
      {kind === 'bars' &&
        points.map((point, index) => (
          <rect key={index} x={xOf(index) - slot * 0.38} width={slot * 0.76} y={Math.min(yOf(0), yOf(point.value))} height={Math.abs(yOf(0) - yOf(point.value))} fill="var(--firn-accent)">
            <title>{`${point.label}: ${point.value.toLocaleString('en')}`}</title>
          </rect>
        ))}
      {kind === 'line' && <polyline points={points.map((point, index) => `${xOf(index)},${yOf(point.value)}`).join(' ')} fill="none" stroke="var(--firn-accent)" strokeWidth="2" />}
      {points.map((point, index) =>
        index % every === 0 ? (
          <text key={index} x={xOf(index)} y={HEIGHT - EDGE.bottom + 18} textAnchor={points.length > 6 ? 'end' : 'middle'} transform={points.length > 6 ? `rotate(-30 ${xOf(index)} ${HEIGHT - EDGE.bottom + 18})` : undefined} fontSize="12" fill="var(--mantine-color-dimmed)">
            {point.label.length > 12 ? `${point.label.slice(0, 11)}…` : point.label}
          </text>
        ) : null,
      )}
    </svg>
  );
}
