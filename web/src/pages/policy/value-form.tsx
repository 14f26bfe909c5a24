import { ActionIcon, Select, TextInput } from '@mantine/core';
import { IconCheck, IconX } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useState, type KeyboardEvent, type SyntheticEvent } from 'react';

import { asProblem } from '../../api/problem';
import type { Setting } from '../../api/types';
import { chosen, formOf, WRITTEN } from '../../lib/policy';
import type { Place } from './editor';
import styles from './policy.module.css';

/** The value being changed: Enter sets what is typed, the check mark what is picked, Escape leaves it; a refusal stays below in the server's words. */
export function ValueForm({ setting, place, close }: { setting: Setting; place: Place; close: () => void }) {
  const queries = useQueryClient();
  const [value, setValue] = useState(chosen(setting));
  const help = useId();
  const save = useMutation({
    mutationFn: () => place.save(setting.key, value.trim()),
    onSuccess: async () => {
      await queries.invalidateQueries();
      close();
    },
  });
  const form = formOf(setting);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const leave = (event: KeyboardEvent) => {
    const closesChoices = (event.target as HTMLElement).getAttribute('aria-expanded') === 'true';
    if (event.key === 'Escape' && !closesChoices) close();
  };
  const label = `value of ${setting.key}`;
  return (
    <form onSubmit={submit} onKeyDown={leave} className={styles.form}>
      <div className="row" style={{ gap: 4 }}>
        {form === 'choice' ? (
          <Select
            aria-label={label}
            aria-describedby={help}
            data={setting.choices}
            value={value}
            onChange={(row) => setValue(row ?? value)}
            allowDeselect={false}
            error={save.error !== null}
            autoFocus
            className="grow"
            classNames={{ input: 'mono' }}
          />
        ) : (
          <TextInput
            aria-label={label}
            aria-describedby={help}
            value={value}
            onChange={(event) => setValue(event.currentTarget.value)}
            error={save.error !== null}
            autoFocus
            className="grow"
            classNames={{ input: 'mono' }}
          />
        )}
        <ActionIcon type="submit" variant="filled" color="ice" loading={save.isPending} aria-label={`set ${setting.key} on ${place.called}`}>
          <IconCheck size={15} />
        </ActionIcon>
        <ActionIcon onClick={close} aria-label="leave it as it is">
          <IconX size={15} />
        </ActionIcon>
      </div>
      <div id={help} className={styles.help}>
        {save.error !== null && <Refusal error={save.error} />}
        {save.error === null && WRITTEN[form] !== '' && <div>{WRITTEN[form]}.</div>}
        <div>
          Default: <span className="mono">{setting.default === '' ? 'not set' : setting.default}</span>
        </div>
      </div>
    </form>
  );
}

function Refusal({ error }: { error: unknown }) {
  const { message, hint } = asProblem(error);
  return (
    <div role="alert" className="bad">
      {message}
      {hint !== null && <div>{hint}</div>}
    </div>
  );
}
