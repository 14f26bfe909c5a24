import { Button, Loader, Progress } from '@mantine/core';
import { useEffect, useState } from 'react';

import type { SqlQuery } from '../api/types';
import { Panel } from './panel';

/** A query that waits or runs: for how long, how far, and a way to end it. */
export function RunningQuery({ query, cancel, canceling }: { query: SqlQuery; cancel: () => void; canceling: boolean }) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, (now - new Date(query.created_at).getTime()) / 1000);
  const percent = query.progress === null ? null : Math.round(query.progress * 100);
  return (
    <Panel>
      <div className="stack">
        <div className="row">
          <Loader size="xs" />
          <span className="grow" role="status">
            {query.state === 'queued' ? query.engine === 'spark' ? 'Waiting for an optimizer' : 'Waiting for a free engine' : `Running${percent === null ? '' : `, ${percent} %`}`} · {seconds.toFixed(1)} s
          </span>
          <Button variant="default" onClick={cancel} loading={canceling}>
            Cancel
          </Button>
        </div>
        {percent !== null && <Progress value={percent} size="sm" aria-label="progress" />}
      </div>
    </Panel>
  );
}
