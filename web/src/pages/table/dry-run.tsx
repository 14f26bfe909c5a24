import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from 'react-router';

import { answered, api } from '../../api/client';
import { asProblem } from '../../api/problem';
import { costly } from '../../api/queries';
import type { DryRunResult, Job, StartJob, Table } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { Bytes, Count } from '../../components/figures';
import { InTerminal } from '../../components/in-terminal';
import { DryRunTable } from '../../components/prediction';
import { Note, ProblemNote } from '../../components/notes';
import { KINDS, type StartableKind } from '../../lib/job-kinds';
import { fullName, paths } from '../../lib/paths';
import { firn } from '../../lib/terminal';
import styles from './dry-run.module.css';

/** Starts a job, or with `dry` only says what it would find. */
function post(table: Table, kind: StartableKind, dry: boolean): Promise<Job | DryRunResult> {
  const params = { path: { catalog: table.catalog, table: fullName(table) }, query: { dry_run: dry } };
  const body: StartJob = { kind };
  return answered(api.POST('/catalogs/{catalog}/tables/{table}/jobs', { params, body }));
}

interface DryRunProps {
  table: Table;
  kind: StartableKind;
  close: () => void;
}

/** What a job would touch and gain, and the button that starts it. */
export function DryRun({ table, kind, close }: DryRunProps) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  // To find orphans every file has to be listed: that is a job too.
  const isLong = kind === 'remove-orphans';
  // Looked at once for each time that it is opened: on a table with a commit a second it would never come to an end.
  const dry = useQuery({
    ...costly,
    queryKey: ['dry-run', table.catalog, fullName(table), kind],
    queryFn: async () => (await post(table, kind, true)) as DryRunResult,
    enabled: !isLong,
    retry: false,
    staleTime: Infinity,
    gcTime: 0,
  });
  const start = useMutation({
    mutationFn: (dryly: boolean) => post(table, kind, dryly),
    onSuccess: async (made, dryly) => {
      close(); // first: with the job there the dry run would be refused now
      await queries.invalidateQueries();
      if (dryly && 'id' in made) await navigate(paths.job(made.id));
    },
  });
  const problem = dry.error ?? start.error;
  const isRefused = dry.error !== null && !asProblem(dry.error).passes;
  return (
    <div className="stack">
      <div>{KINDS[kind].says}</div>
      {isLong && <div className="dim">Firn must list every file to know. “Dry run” starts a job that lists them and moves nothing.</div>}
      {dry.isLoading && <div className="dim">Running the dry run…</div>}
      {dry.data && <Preview planned={dry.data} />}
      {problem && <ProblemNote error={problem} />}
      <InTerminal command={firn('job start', [fullName(table), kind], { catalog: table.catalog })} />
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <ActionButton variant="default" onClick={close}>
          Cancel
        </ActionButton>
        {isLong && (
          <ActionButton variant="default" loading={start.isPending && start.variables} onClick={() => start.mutate(true)}>
            Dry run
          </ActionButton>
        )}
        <ActionButton loading={start.isPending && !start.variables} disabledReason={isRefused ? 'The server would refuse it, see above.' : null} onClick={() => start.mutate(false)}>
          {KINDS[kind].label}
        </ActionButton>
      </div>
    </div>
  );
}

function Preview({ planned }: { planned: DryRunResult }) {
  if (planned.affected.length > 0 && planned.affected.every(({ count }) => count === 0)) return <div>There is nothing to do now.</div>;
  return (
    <>
      <div>
        It would <b className="wrap-anywhere">{planned.action}</b>.
      </div>
      {planned.affected.length > 0 && (
        <table className={styles.touches} aria-label="affected items">
          <tbody>
            {planned.affected.map(({ items: what, count, bytes }) => (
              <tr key={what}>
                <th scope="row">{what}</th>
                <td>
                  <Count value={count} />
                </td>
                <td>{bytes !== null && <Bytes value={bytes} className="dim" />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <DryRunTable figures={planned.gain} />
      {planned.notes.length > 0 && (
        <Note title={planned.exact ? 'To know' : 'These numbers are estimates'}>
          {planned.notes.map((note) => (
            <div key={note}>{note}</div>
          ))}
        </Note>
      )}
    </>
  );
}
