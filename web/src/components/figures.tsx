import { useSyncExternalStore } from 'react';

import { ago, bytes, count, exact, moment, span } from '../lib/format';

interface Value {
  value: number | null | undefined;
  className?: string;
}

const NOTHING = <span className="dim">–</span>;

/** A count, short; in full on hover. */
export function Count({ value, className }: Value) {
  if (value === null || value === undefined) return NOTHING;
  return (
    <span className={className} title={exact(value)}>
      {count(value)}
    </span>
  );
}

export function Bytes({ value, className }: Value) {
  if (value === null || value === undefined) return NOTHING;
  return (
    <span className={className} title={`${exact(value)} bytes`}>
      {bytes(value)}
    </span>
  );
}

export function Span({ seconds }: { seconds: number | null | undefined }) {
  if (seconds === null || seconds === undefined) return NOTHING;
  return <span title={`${seconds.toFixed(3)} s`}>{span(seconds)}</span>;
}

/** A moment against now, kept current; in full on hover. */
export function When({ at }: { at: string | null | undefined }) {
  const now = useNow();
  if (at === null || at === undefined) return NOTHING;
  return (
    <time dateTime={at} title={moment(at)} style={{ whiteSpace: 'nowrap' }}>
      {ago(at, now)}
    </time>
  );
}

// One clock for all: a list of a hundred rows must not run a hundred timers.
let now = Date.now();
const listeners = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  ticking ??= setInterval(() => {
    now = Date.now();
    listeners.forEach((tell) => tell());
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(ticking);
      ticking = undefined;
    }
  };
}

/** The time, in milliseconds; draws again every second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** "+3 −2"; a zero has no sign, and is left out beside the other. */
export function AddedRemoved({ added, removed }: { added: number; removed: number }) {
  if (added === 0 && removed === 0) return <>0</>;
  return (
    <>
      {added > 0 && (
        <>
          +<Count value={added} />
        </>
      )}
      {added > 0 && removed > 0 && ' '}
      {removed > 0 && (
        <>
          −<Count value={removed} />
        </>
      )}
    </>
  );
}
