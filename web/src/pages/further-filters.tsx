import { Autocomplete, Button, Popover, Select } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconFilter } from '@tabler/icons-react';

import { FORMATS, FURTHER, LAST_WRITES, PARTITIONS, ROWS } from '../lib/migration';
import { useUrlState } from '../lib/url-state';

/** Filters that are needed less often: how many of them apply is written on the button. */
export function FurtherFilters() {
  const [get, set] = useUrlState();
  const chosen = FURTHER.filter((key) => get(key) !== undefined).length;
  const write = useDebouncedCallback((key: string, value: string) => set({ [key]: value.trim() }), 250);
  return (
    <Popover position="bottom-start" width={260} trapFocus returnFocus>
      <Popover.Target>
        <Button variant={chosen > 0 ? 'light' : 'default'} leftSection={<IconFilter size={14} />}>
          {chosen > 0 ? `More filters (${chosen})` : 'More filters'}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className="stack">
          <Autocomplete label="Format" placeholder="parquet" data={FORMATS} defaultValue={get('format') ?? ''} onChange={(value) => write('format', value)} comboboxProps={{ withinPortal: false }} maxLength={64} />
          <Ranges name="partitions" label="Partitions" ranges={PARTITIONS} />
          <Ranges name="rows" label="Rows" ranges={ROWS} />
          <Ranges name="written" label="Last write" ranges={LAST_WRITES} />
          <Autocomplete label="Writer" placeholder="etl" data={[]} defaultValue={get('writer') ?? ''} onChange={(value) => write('writer', value)} comboboxProps={{ withinPortal: false }} maxLength={255} />
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
