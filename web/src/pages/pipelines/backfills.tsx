import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { backfills as backfillsQuery, changeBackfill, type BackfillAction } from '../../api/pipeline-queries';
import type { Backfill, Pipeline, PipelineTable } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { BackfillMark } from '../../components/pipeline-mark';
import { Bar } from '../../components/bar';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { useNow, When } from '../../components/figures';
import { Note, ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { need, onTable } from '../../lib/access';
import { currentText, estimatedEnd, progressText } from '../../lib/backfills';
import { clock, many } from '../../lib/format';
import { firn } from '../../lib/terminal';
import styles from './pipelines.module.css';

interface BackfillsProps {
  pipeline: Pipeline;
  table: PipelineTable;
}

/** The newest backfills of a table: how far they are, and buttons that steer those that are not done. Nothing without one. */
export function Backfills({ pipeline, table }: BackfillsProps) {
  const { data, error } = useQuery(backfillsQuery(pipeline.name, table.name));
  if (error !== null) return <ProblemNote error={error} what="cannot list the backfills" />;
  if (data === undefined || data.items.length === 0) return null;
  return (
    <Panel flush title="Backfills">
      {data.items.map((backfill) => (
        <Entry key={backfill.id} pipeline={pipeline} backfill={backfill} />
      ))}
    </Panel>
  );
}

const OPEN = ['active', 'paused'];

function Entry({ pipeline, backfill }: { pipeline: Pipeline; backfill: Backfill }) {
  const now = useNow();
  const end = estimatedEnd(backfill, now);
  const current = OPEN.includes(backfill.status) ? currentText(backfill) : '';
  const what = backfill.where ?? `what has changed since checkpoint ${backfill.since}`;
  return (
    <div className={styles.backfill}>
      <div className={styles.backfillHead}>
        <code className="mono wrap-anywhere grow">{what}</code>
        <BackfillMark status={backfill.status} />
        <Steer pipeline={pipeline} backfill={backfill} />
      </div>
      <Bar done={backfill.done} total={backfill.total} label={`backfill of ${what}`} />
      <div className={styles.backfillFoot}>
        <span>
          {progressText(backfill)}
          {end !== null && <>, until about {clock(end).slice(0, 5)}</>}
        </span>
        <span className="dim">
          asked for <When at={backfill.created_at} />
          {backfill.created_by !== null && <> by {backfill.created_by}</>}
          {backfill.ended_at !== null && <>, ended <When at={backfill.ended_at} /></>}
        </span>
      </div>
      {current !== '' && <div className="dim mono wrap-anywhere">{current}</div>}
      {backfill.error !== null && <Note tone="bad" title="The backfill failed">{backfill.error}</Note>}
    </div>
  );
}

function Steer({ pipeline, backfill }: { pipeline: Pipeline; backfill: Backfill }) {
  const [asks, ask] = useState(false);
  const { status, table } = backfill;
  const needs = pipeline.tables.flatMap(({ name }) => need(onTable(pipeline.catalog, name), 'write'));
  const change = (action: BackfillAction) => changeBackfill(pipeline.name, table, backfill.id, action);
  const pause = useDo('cannot pause the backfill', () => change('pause'));
  const resume = useDo('cannot resume the backfill', () => change('resume'));
  return (
    <span className="row">
      {status === 'active' && (
        <ActionButton variant="default" size="compact-xs" needs={needs} loading={pause.isPending} onClick={() => pause.mutate()}>
          Pause
        </ActionButton>
      )}
      {(status === 'paused' || status === 'failed') && (
        <ActionButton variant="default" size="compact-xs" needs={needs} loading={resume.isPending} onClick={() => resume.mutate()}>
          Resume
        </ActionButton>
      )}
      {OPEN.includes(status) && (
        <ActionButton variant="default" size="compact-xs" needs={needs} onClick={() => ask(true)}>
          Cancel…
        </ActionButton>
      )}
      <ConfirmDialog title={`Cancel the backfill of ${table}`} opened={asks} close={() => ask(false)} yes="Cancel the backfill" command={firn('pipeline cancel', [pipeline.name, table, backfill.id])} act={() => change('cancel')}>
        {backfill.beside == null ? 'Runs' : 'Jobs'} no longer compute the {many(backfill.total - backfill.done, 'chunk')} that are left{backfill.beside == null ? '; a run that works on some now may still commit them' : ', and commit none that they work on now'}. The{' '}
        {many(backfill.done, 'chunk')} that are committed stay. You cannot resume it; you can request another one.
      </ConfirmDialog>
    </span>
  );
}
