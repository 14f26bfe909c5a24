import { Button, Popover, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconFilter } from '@tabler/icons-react';

import { FURTHER, LAST_WRITES, PARTITIONS, ROWS } from '../lib/migration';
import { useUrlState } from '../lib/url-state';

/** Filters that are needed less often: how many of them apply is written on the button. */
export function FurtherFilters() {
  const [get, set] = useUrlState();
  const chosen = FURTHER.filter((key) => get(key) !== undefined).length;
  const write = useDebouncedCallback((key: string, value: string) => set({ [key]: value.trim() }), 250);
  return (
    // It stays below its button: the page becomes shorter as filters apply, and above there may be no room.
    <Popover position="bottom-start" width={260} trapFocus returnFocus middlewares={{ flip: false, shift: true }}>
      <Popover.Target>
        <Button variant={chosen > 0 ? 'light' : 'default'} leftSection={<IconFilter size={14} />}>
          {chosen > 0 ? `More filters (${chosen})` : 'More filters'}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className="stack">
          <TextInput label="Format" placeholder="parquet, orc, avro, text" defaultValue={get('format') ?? ''} onChange={(event) => write('format', event.currentTarget.value)} maxLength={64} />
          <Ranges name="partitions" label="Partitions" ranges={PARTITIONS} />
          <Ranges name="rows" label="Rows" ranges={ROWS} />
          <Ranges name="written" label="Last write" ranges={LAST_WRITES} />
          <TextInput label="Writer" placeholder="a user of Hive" defaultValue={get('writer') ?? ''} onChange={(event) => write('writer', event.currentTarget.value)} maxLength={255} />
          <Button variant="default" disabled={chosen === 0} onClick={() => set(Object.fromEntries(FURTHER.map((key) => [key, undefined])))}>
            Clear these filters
          </Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

function Ranges({ name, label, ranges }: { name: string; label: string; ranges: { value: string; label: string }[] }) {
  const [get, set] = useUrlState();
  return (
    <Select
      label={label}
      allowDeselect={false}
      value={get(name) ?? ''}
      onChange={(value) => set({ [name]: value ?? undefined })}
      data={ranges.map(({ value, label: text }) => ({ value, label: text }))}
      comboboxProps={{ withinPortal: false }}
    />
  );
}
