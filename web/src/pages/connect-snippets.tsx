import { useState } from 'react';

import type { Table } from '../api/types';
import { Choice } from '../components/choice';
import { useMe } from '../components/current-user';
import { Snippet } from '../components/snippet';
import { fullName } from '../lib/paths';
import { snippetsFor } from '../lib/snippets';
import { logOf } from '../lib/streams';

/** Snippets for each engine, with this table's own names. */
export function HowToUse({ table }: { table: Table }) {
  const { access } = useMe();
  const subject = {
    needsToken: access,
    catalog: table.catalog,
    name: fullName(table),
    keyed: table.kind === 'keyed',
    view: table.kind === 'view',
    key: table.primary_key,
    columns: table.columns,
    log: logOf(table),
  };
  const all = snippetsFor(subject, location.origin);
  const engines = Object.keys(all);
  const [engine, choose] = useState(engines[0] ?? '');
  return (
    <div className="stack" style={{ maxWidth: 900 }}>
      <div>
        <Choice label="engine" value={engine} set={choose} options={engines.map((engine) => ({ value: engine, label: engine }))} />
      </div>
      {all[engine]?.map((item) => (
        <div key={item.title} className="stack" style={{ gap: 5 }}>
          <div>
            <b>{item.title}</b> {item.note !== undefined && <span className="dim">{item.note}</span>}
          </div>
          <Snippet label={item.title} code={item.code} />
        </div>
      ))}
    </div>
  );
}
