import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { Bytes, Count } from '../../components/figures';
import { Facts } from '../../components/panel';
import { paths } from '../../lib/paths';

/** What a commit says of itself, as people read it; keys that are shown by name come first. */
export function SummaryFacts({ summary, first = [] }: { summary: Record<string, string>; first?: { name: string; value: ReactNode }[] }) {
  const facts = Object.entries(summary)
    .filter(([key, value]) => value !== '' && key !== 'operation')
    .map(([key, value]) => ({ name: nameOf(key), value: valueOf(key, value) }));
  return <Facts columns facts={[...first, ...facts]} />;
}

function nameOf(key: string): string {
  return key.replace(/^firn\./, '').replaceAll('-', ' ').replaceAll('.', ' ');
}

function valueOf(key: string, value: string): ReactNode {
  if (key === 'firn.job-id') {
    return (
      <Link className="mono" to={paths.job(value)}>
        {value.slice(0, 8)}
      </Link>
    );
  }
  if (!/^\d+$/.test(value) || /\bid\b|merged-(base|change)/.test(key)) return <span className="mono">{value}</span>;
  const number = Number(value);
  return /size|bytes/.test(key) ? <Bytes value={number} /> : <Count value={number} />;
}

