import { linePoints, type Sample } from '../lib/rates';

const WIDTH = 120;
const HEIGHT = 20;

/** A small line without axes: how a rate has changed. `label` says the same in words. */
export function Sparkline({ samples, label }: { samples: readonly Sample[]; label: string }) {
  return (
    <svg viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`} width={WIDTH} height={HEIGHT + 2} role="img" aria-label={label}>
      <title>{label}</title>
      <polyline points={linePoints(samples, WIDTH, HEIGHT)} fill="none" stroke="var(--firn-accent)" strokeWidth="1.5" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
