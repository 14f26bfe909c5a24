import { useQuery } from '@tanstack/react-query';

import { heldRows } from '../../api/pipeline-queries';
import type { SampledRow } from '../../api/types';
import { ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { changeOf, columnsOf } from '../../lib/held-rows';
import styles from './pipelines.module.css';

interface HeldRowsProps {
  pipeline: string;
  table: string;
  run: string;
}

/** Some of the rows that publishing would change: the old value of a column is struck out before the new one. */
export function HeldRowsPanel({ pipeline, table, run }: HeldRowsProps) {
  const { data, error } = useQuery(heldRows(pipeline, table, run));
  if (error !== null) return <ProblemNote error={error} what="cannot show rows of the run that waits" />;
  if (data === undefined || data.rows.length === 0) return null;
  const columns = columnsOf(data.rows);
  return (
    <Panel flush title="Some of the rows" aside={<span className="mono dim">{table}</span>}>
      <table className={styles.sample} aria-label={`rows that would change in ${table}`}>
        <thead>
          <tr>
            <th scope="col">change</th>
            {columns.map((name) => (
              <th key={name} scope="col" className="mono">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {data.rows.map((row, index) => (
            <tr key={index} data-change={changeOf(row)}>
              <td>{changeOf(row)}</td>
              {columns.map((name) => (
                <td key={name} className="mono">
                  <Value row={row} column={name} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function Value({ row, column }: { row: SampledRow; column: string }) {
  const [before, after] = [row.before?.[column], row.after?.[column]];
  if (row.before === null || row.after === null || before === after) return <Text value={row.after === null ? before : after} />;
  return (
    <>
      <del>
        <Text value={before} />
      </del>{' '}
      <ins>
        <Text value={after} />
      </ins>
    </>
  );
}

function Text({ value }: { value: string | null | undefined }) {
  return value == null ? <span className="dim">null</span> : <>{value}</>;
}
