import type { Stream } from '../api/types';
import { engineOf } from '../lib/streams';

/** What drains in the newest attempt of a stream; hovering says why it is Spark. */
export function EngineName({ stream }: { stream: Pick<Stream, 'attempts'> }) {
  const engine = engineOf(stream);
  if (engine === null) return <span className="dim">–</span>;
  return <span title={engine.reason ?? undefined}>{engine.name}</span>;
}
