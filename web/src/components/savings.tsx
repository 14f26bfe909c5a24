import { formulaOf, savingsFacts, type Saved } from '../lib/savings';
import { Panel } from './panel';

/** What jobs saved and cost in the chosen time, with the formula of what is estimated. */
export function Savings({ savings }: { savings: Saved }) {
  return (
    <Panel title="Savings">
      <dl style={{ display: 'flex', flexWrap: 'wrap', gap: '8px 28px', margin: 0 }}>
        {savingsFacts(savings).map(([name, value]) => (
          <div key={name}>
            <dt className="dim">{name}</dt>
            <dd style={{ margin: 0 }}>{value}</dd>
          </div>
        ))}
      </dl>
      <div className="dim" style={{ marginTop: 8 }}>
        {formulaOf(savings)}
      </div>
    </Panel>
  );
}
