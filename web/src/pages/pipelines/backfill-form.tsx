import { Button, Modal, NumberInput, Textarea } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { requestBackfill } from '../../api/pipeline-queries';
import type { Backfill, BackfillRequest, Pipeline, PipelineTable } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { InTerminal } from '../../components/in-terminal';
import { ProblemNote } from '../../components/notes';
import { backfillCommand, DEFAULT_MINUTES, type BackfillFields } from '../../lib/backfills';
import { many } from '../../lib/format';
import { definitionOf } from '../../lib/pipelines';
import styles from './pipelines.module.css';

const MOST_SHOWN = 20;
const LONGEST_MINUTES = 24 * 60;
const MOST_CHUNKS = 1000;
const MOST_BESIDE = 32;

interface BackfillFormProps {
  pipeline: Pipeline;
  table: PipelineTable;
  opened: boolean;
  close: () => void;
}

/** Why a table has no backfills; null if it may have some. */
export function whyNoBackfill(table: PipelineTable): string | null {
  const { incremental, mode } = definitionOf(table);
  if (!incremental) return 'Each run of this table computes all rows.';
  return mode === 'append' ? 'Runs only add rows to this table.' : null;
}

/** Requests a backfill: which rows, in which chunks. A dry run shows the chunks before anything is stored. */
export function BackfillForm({ pipeline, table, opened, close }: BackfillFormProps) {
  return (
    <Modal opened={opened} onClose={close} size="lg" title={`Compute rows of ${table.name} again`} closeButtonProps={{ 'aria-label': 'close' }}>
      {opened && <Fields pipeline={pipeline} table={table} close={close} />}
    </Modal>
  );
}

function Fields({ pipeline, table, close }: Omit<BackfillFormProps, 'opened'>) {
  const queries = useQueryClient();
  const [fields, setFields] = useState<BackfillFields>({ where: '', minutes: DEFAULT_MINUTES, chunks: null, beside: null });
  const preview = useMutation({ mutationFn: () => requestBackfill(pipeline.name, table.name, requestOf(fields, true)) });
  const request = useMutation({
    mutationFn: () => requestBackfill(pipeline.name, table.name, requestOf(fields, false)),
    onSuccess: async () => {
      await queries.invalidateQueries(); // the page lists it
      close();
    },
  });
  const change = (some: Partial<BackfillFields>) => {
    setFields({ ...fields, ...some });
    preview.reset();
    request.reset();
  };
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    preview.mutate();
  };
  const missing = fields.where.trim() === '' ? 'Say which rows first.' : null;
  const error = request.error ?? preview.error;
  return (
    <form onSubmit={submit} className="stack">
      <div>
        {fields.beside === null ? 'Runs compute these rows again, in chunks, together with the changes of the inputs.' : 'Jobs compute these rows again, in chunks, and the runs go on beside them.'} Rows that are right are not written; rows that the query no longer gives are deleted.
      </div>
      <Textarea
        label="Rows"
        description={`A condition in SQL over ${definitionOf(table).scope.join(', ')}`}
        placeholder="day BETWEEN '2026-01-01' AND '2026-03-31'"
        classNames={{ input: 'mono' }}
        autosize
        minRows={2}
        value={fields.where}
        onChange={(event) => change({ where: event.currentTarget.value })}
        data-autofocus
      />
      <div className={styles.backfillFields}>
        <NumberInput
          label="Number of chunks"
          placeholder="Firn chooses it"
          min={1}
          max={MOST_CHUNKS}
          allowDecimal={false}
          value={fields.chunks ?? ''}
          onChange={(value) => change({ chunks: value === '' ? null : Number(value) })}
        />
        <NumberInput
          label={`Minutes of chunks in one ${fields.beside === null ? 'run' : 'job'}`}
          min={1}
          max={LONGEST_MINUTES}
          allowDecimal={false}
          value={fields.minutes}
          onChange={(value) => change({ minutes: Math.max(1, Number(value)) })}
        />
        <NumberInput
          label="Jobs beside the runs"
          placeholder="none: part of the runs"
          min={1}
          max={MOST_BESIDE}
          allowDecimal={false}
          value={fields.beside ?? ''}
          onChange={(value) => change({ beside: value === '' ? null : Number(value) })}
        />
      </div>
      {error && <ProblemNote error={error} />}
      {preview.data && <Chunks planned={preview.data} />}
      {missing === null && <InTerminal command={backfillCommand(pipeline.name, table.name, fields)} />}
      <div className="row row-wrap" style={{ justifyContent: 'flex-end' }}>
        <Button variant="default" onClick={close}>
          Cancel
        </Button>
        <ActionButton type="submit" variant="default" loading={preview.isPending} disabledReason={missing}>
          Show the chunks
        </ActionButton>
        <ActionButton loading={request.isPending} disabledReason={missing} onClick={() => request.mutate()}>
          Request the backfill
        </ActionButton>
      </div>
    </form>
  );
}

function requestOf({ where, minutes, chunks, beside }: BackfillFields, dry: boolean): BackfillRequest {
  return { where: where.trim(), chunks, beside, chunk_seconds: minutes * 60, dry_run: dry };
}

function Chunks({ planned }: { planned: Backfill }) {
  const left = planned.total - MOST_SHOWN;
  return (
    <div className={styles.chunks} tabIndex={0} role="group" aria-label="chunks">
      <table className={styles.sample} aria-label="chunks of the backfill">
        <thead>
          <tr>
            <th scope="col">chunk</th>
            <th scope="col">rows</th>
          </tr>
        </thead>
        <tbody>
          {planned.chunks.slice(0, MOST_SHOWN).map(({ number, condition }) => (
            <tr key={number}>
              <td>{number}</td>
              <td className="mono" title={condition}>
                {condition === '' ? 'all rows of the condition' : condition}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {left > 0 && <div className={`dim ${styles.more}`}>and {many(left, 'more chunk')}</div>}
    </div>
  );
}
