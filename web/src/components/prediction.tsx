import { changesOf, compared } from '../lib/prediction';
import styles from './prediction.module.css';

/** Quantities before and after, as a job would change them. */
export function DryRunTable({ figures }: { figures: Readonly<Record<string, unknown>> }) {
  const changes = changesOf(figures);
  if (changes.length === 0) return null;
  return (
    <table className={styles.table} aria-label="what would be gained">
      <thead>
        <tr>
          <th scope="col">Gain</th>
          <th scope="col">before</th>
          <th scope="col">after</th>
        </tr>
      </thead>
      <tbody>
        {changes.map(({ key, name, before, after, changes: differs }) => (
          <tr key={key}>
            <th scope="row">{name}</th>
            <td>{before}</td>
            <td className={differs ? styles.better : 'dim'}>{after}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What was predicted of a job beside what came of it. */
export function PredictionTable({ predicted, gained }: { predicted: Readonly<Record<string, unknown>>; gained: Readonly<Record<string, unknown>> }) {
  return (
    <table className={styles.table} aria-label="before, predicted, actual">
      <thead>
        <tr>
          <td />
          <th scope="col">before</th>
          <th scope="col">predicted</th>
          <th scope="col">actual</th>
        </tr>
      </thead>
      <tbody>
        {compared(predicted, gained).map((item) => (
          <tr key={item.key}>
            <th scope="row">{item.name}</th>
            <td>{item.before}</td>
            <td>{item.predicted ?? <span className="dim">–</span>}</td>
            <td className={styles.better}>{item.gained ?? <span className="dim">–</span>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
