import { Note } from '../../components/notes';
import { many } from '../../lib/format';
import type { ValidatorResult } from '../../lib/pipelines';

/** The result of one validator, with some of the rows that violate it. */
export function Verdict({ verdict }: { verdict: ValidatorResult }) {
  const { name, passed, severity, violations, detail, examples } = verdict;
  const words = detail ?? (violations === null ? '' : many(violations, 'row'));
  const tone = passed ? 'info' : severity === 'fail' ? 'bad' : 'warn';
  return (
    <Note tone={tone} title={<><span className="mono">{name}</span>: {passed ? 'passed' : `${severity}, ${words}`}</>}>
      {!passed && examples.length > 0 &&
        examples.map((row, index) => (
          <div key={index} className="mono wrap-anywhere">
            {Object.entries(row).map(([column, value]) => `${column}=${value ?? 'null'}`).join(', ')}
          </div>
        ))}
    </Note>
  );
}
