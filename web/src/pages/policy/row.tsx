import { ActionIcon, Tooltip } from '@mantine/core';
import { IconArrowBackUp, IconPencil } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import { Link } from 'react-router';

import type { Setting } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { useDo } from '../../components/confirm-dialog';
import { useWhyNot } from '../../components/current-user';
import { namespaceOf, otherWords } from '../../lib/policy';
import { paths } from '../../lib/paths';
import type { Place } from './editor';
import { ValueForm } from './value-form';
import styles from './policy.module.css';

/** One setting: what it decides, its value, and where that comes from. */
export function SettingRow({ setting, place, zone }: { setting: Setting; place: Place; zone: string }) {
  const [editing, edit] = useState(false);
  const cell = useRef<HTMLTableCellElement>(null);
  const wasEditing = useRef(false);
  useEffect(() => {
    // The keyboard goes on where it was, once the button is there again.
    if (wasEditing.current && !editing) cell.current?.querySelector('button')?.focus();
    wasEditing.current = editing;
  }, [editing]);
  return (
    <tr>
      <td>
        <span className={`mono ${styles.key}`}>{setting.key}</span>
        <div className={styles.does}>{setting.does}</div>
      </td>
      <td ref={cell} className={styles.value}>
        {editing ? <ValueForm setting={setting} place={place} close={() => edit(false)} /> : <Value setting={setting} place={place} zone={zone} edit={() => edit(true)} />}
      </td>
      <td className={styles.source}>
        <Source setting={setting} place={place} />
        <Ignored setting={setting} place={place} />
      </td>
    </tr>
  );
}

function Value({ setting, place, zone, edit }: { setting: Setting; place: Place; zone: string; edit: () => void }) {
  const other = otherWords(setting, zone);
  const isOwn = setting.source === place.source;
  return (
    <>
      <ActionButton
        variant="subtle"
        color={isOwn ? 'ice' : 'gray'}
        size="compact-sm"
        needs={place.needs(setting)}
        onClick={edit}
        aria-label={`change ${setting.key}, now ${setting.value === '' ? 'not set' : setting.value}`}
        rightSection={<IconPencil size={13} aria-hidden />}
        classNames={{ root: styles.valueButton ?? '', label: `mono ${styles.valueText ?? ''}` }}
      >
        {setting.value === '' ? <span className="dim">not set</span> : setting.value}
      </ActionButton>
      {other !== null && <div className={styles.other}>{other}</div>}
    </>
  );
}

function Source({ setting, place }: { setting: Setting; place: Place }) {
  const { source } = setting;
  if (source === place.source) {
    return (
      <span className="row" style={{ gap: 4 }}>
        <span className="accent">{place.called}</span>
        <Remove setting={setting} place={place} />
      </span>
    );
  }
  const namespace = namespaceOf(source);
  if (namespace === undefined) return <span className="dim">{source}</span>;
  return (
    <Link to={`${paths.policies(place.catalog, namespace)}${namespace === '' ? '?' : '&'}find=${encodeURIComponent(setting.key)}`}>
      {namespace === '' ? 'catalog' : <span className="mono">{namespace}</span>}
    </Link>
  );
}

/** What an engine has written here or above and nobody can read: it does not hold. */
function Ignored({ setting, place }: { setting: Setting; place: Place }) {
  return setting.ignored.map((item) => (
    <div key={item.source} className={styles.other}>
      <span className="row" style={{ gap: 4 }}>
        {item.source === place.source ? place.called : item.source}: {item.value} is ignored
        {item.source === place.source && <Remove setting={setting} place={place} />}
      </span>
      {item.reason}
    </div>
  ));
}

function Remove({ setting, place }: { setting: Setting; place: Place }) {
  const why = useWhyNot()(...place.needs(setting));
  const remove = useDo(`cannot remove ${setting.key}`, () => place.save(setting.key, null));
  const says = why ?? 'remove this value and use the inherited one';
  return (
    <Tooltip label={says} events={{ hover: true, focus: true, touch: true }}>
      <ActionIcon
        size="sm"
        loading={remove.isPending}
        aria-disabled={why !== null}
        data-disabled={why !== null || undefined}
        aria-label={`remove the value of ${setting.key}`}
        onClick={() => {
          if (why === null) remove.mutate();
        }}
      >
        <IconArrowBackUp size={15} />
      </ActionIcon>
    </Tooltip>
  );
}
