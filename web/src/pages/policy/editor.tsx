import { Button, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useRef } from 'react';

import type { Setting } from '../../api/types';
import { Choice } from '../../components/choice';
import { Empty, ProblemNote } from '../../components/notes';
import type { Need } from '../../lib/access';
import { many } from '../../lib/format';
import { byArea, isSetAt, type Shown } from '../../lib/policy';
import { useUrlState } from '../../lib/url-state';
import { SettingRow } from './row';
import styles from './policy.module.css';

/** A table, a namespace or a catalog that settings are looked at and set for. */
export interface Place {
  catalog: string;
  /** As the server names it as a source: `table`, `namespace db`, `catalog`. */
  source: string;
  /** As a sentence names it: "this table". */
  called: string;
  /** What it takes to set one there. */
  needs: (setting: Setting) => Need[];
  /** Sets one value there, or with null removes it. */
  save: (key: string, value: string | null) => Promise<unknown>;
}

interface EditorProps {
  place: Place;
  settings: readonly Setting[] | undefined;
  error: unknown;
}

/** Every setting with its value and where it comes from, changed where it stands. */
export function PolicyEditor({ place, settings, error }: EditorProps) {
  const [get, set] = useUrlState();
  const search = useRef<HTMLInputElement>(null);
  const find = useDebouncedCallback((text: string) => set({ find: text.trim() }), 150);
  const shown = (get('shown') ?? 'all') as Shown;
  if (settings === undefined) return error ? <div className={styles.head}><ProblemNote error={error} what="cannot show the policy" /></div> : null;
  const areas = byArea(settings, { find: get('find') ?? '', shown, place: place.source });
  const zone = settings.find(({ key }) => key === 'firn.optimize.time-zone')?.value ?? 'UTC';
  const own = settings.filter((setting) => isSetAt(place.source, setting)).length;
  const reset = () => {
    if (search.current !== null) search.current.value = '';
    set({ find: undefined, shown: undefined });
  };
  return (
    <>
      <div className={`row row-wrap ${styles.head}`}>
        <TextInput
          ref={search}
          aria-label="search the settings"
          placeholder="Search settings"
          leftSection={<IconSearch size={14} />}
          defaultValue={get('find') ?? ''}
          onChange={(event) => find(event.currentTarget.value)}
          w={280}
        />
        <Choice
          label="which settings"
          value={shown}
          set={(value) => set({ shown: value === 'all' ? undefined : value })}
          options={[
            { value: 'all', label: 'All' },
            { value: 'changed', label: 'Not the default' },
            { value: 'own', label: 'Set here' },
          ]}
        />
        <span className="dim">{own === 0 ? `Nothing is set on ${place.called} itself.` : `${many(own, 'value')} set on ${place.called} itself.`}</span>
      </div>
      {areas.length === 0 ? (
        <Empty title="No matching settings" action={<Button variant="default" onClick={reset}>Show all</Button>}>
          Try other words, or show all settings.
        </Empty>
      ) : (
        <table className={styles.table} aria-label="policy">
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col" className={styles.valueHead}>
                Value
              </th>
              <th scope="col">From</th>
            </tr>
          </thead>
          {areas.map((area) => (
            <tbody key={area.title}>
              <tr>
                <th scope="rowgroup" colSpan={3} className={styles.area}>
                  {area.title}
                </th>
              </tr>
              {area.settings.map((item) => (
                <SettingRow key={item.key} setting={item} place={place} zone={zone} />
              ))}
            </tbody>
          ))}
        </table>
      )}
    </>
  );
}
