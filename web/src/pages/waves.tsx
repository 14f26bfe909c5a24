import { Button } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { exported } from '../api/client';
import { waves as wavesQuery } from '../api/hive-queries';
import type { Wave } from '../api/types';
import { useDo } from '../components/confirm-dialog';
import { DataTable, type Column } from '../components/data-table';
import { When } from '../components/figures';
import { Mark, WARNING } from '../components/status-icons';
import { saveFile } from '../lib/download';
import { span } from '../lib/format';
import { paths } from '../lib/paths';
import styles from './migration.module.css';
import { BatchActions } from './operation-actions';
import { BatchBar } from './operations';

/** What was started for many tables at once: how far it is, and its report. */
export function Waves({ catalog }: { catalog: string }) {
  const { data, error } = useQuery(wavesQuery(catalog));
  if (data?.items.length === 0) return null;
  return <DataTable name="waves" title="Waves" columns={columns(catalog)} rows={data?.items} error={error} id={(wave) => wave.id} link={(wave) => reportOf(catalog, wave)} empty={null} />;
}

const reportOf = (catalog: string, wave: Wave): string => paths.upgradeMany(catalog, wave.kind === 'check' ? { check: wave.id } : { batch: wave.id });

function columns(catalog: string): Column<Wave>[] {
  return [
    { key: 'name', title: 'Wave', cell: (wave) => <Link to={reportOf(catalog, wave)} className={`wrap-anywhere ${styles.wave}`}>{wave.name}</Link> },
    { key: 'progress', title: 'Progress', wide: true, cell: (wave) => <Progress wave={wave} /> },
    { key: 'remaining', title: 'Remaining', cell: (wave) => <Remaining wave={wave} />, right: true },
    { key: 'started', title: 'Started', cell: (wave) => <When at={wave.created_at} />, right: true },
    {
      key: 'act',
      title: '',
      right: true,
      cell: (wave) => (
        <span className="row" style={{ gap: 6, justifyContent: 'flex-end' }}>
          <BatchActions catalog={catalog} batch={wave} />
          <Report catalog={catalog} wave={wave} />
        </span>
      ),
    },
  ];
}

function Remaining({ wave }: { wave: Wave }) {
  if (wave.unfinished === 0) return <span className="dim">–</span>;
  if (wave.unfinished === (wave.outcomes.paused ?? 0)) return <span className="dim">paused</span>;
  if (wave.remaining_seconds === null) return <span className="dim" title="An estimate needs three tables that have ended, of this wave or of the one before.">not known yet</span>;
  return <>about {span(wave.remaining_seconds)}</>;
}

function Progress({ wave }: { wave: Wave }) {
  return (
    <div className={styles.progress}>
      <BatchBar batch={wave} />
      {wave.stopped !== null && (
        <div className="wrap-anywhere" style={{ marginTop: 5 }}>
          <Mark look={{ ...WARNING, says: `Stopped: ${wave.stopped}` }} />
        </div>
      )}
    </div>
  );
}

function Report({ catalog, wave }: { catalog: string; wave: Wave }) {
  const save = useDo('cannot export', async () => {
    saveFile(`wave-${wave.id}.csv`, 'text/csv', await exported(`/catalogs/${encodeURIComponent(catalog)}/hive/waves/${wave.id}/csv`));
  });
  return (
    <Button size="compact-xs" variant="default" leftSection={<IconDownload size={12} />} loading={save.isPending} onClick={() => save.mutate()} aria-label={`report of ${wave.name} as CSV`}>
      CSV
    </Button>
  );
}
