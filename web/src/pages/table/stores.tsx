import type { ReactNode } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { hiveTable } from '../../api/hive-queries';
import { suspectedChangelogs } from '../../api/stream-queries';
import type { Store, Table } from '../../api/types';
import { Bytes, Count, When } from '../../components/figures';
import { Note } from '../../components/notes';
import { WARNING, Mark } from '../../components/status-icons';
import { many } from '../../lib/format';
import { fullName, paths } from '../../lib/paths';
import { logOf } from '../../lib/streams';
import { LogBox } from './log-box';
import { Figure, Flow } from './store-parts';
import styles from './stores.module.css';

/** A keyed table as it is: a log flows into changes, changes flow into base, and Hive's own data into both. */
export function StoresStrip({ table }: { table: Table }) {
  const { change, base } = table.stores;
  if (change === undefined || base === undefined) return null;
  const hasLog = logOf(table) !== null;
  const behind = (table.change_sequence ?? 0) - (table.watermark ?? 0);
  return (
    <>
      {hasLog && <SuspectedChangelogs table={table} />}
      <section className={styles.strip} aria-label="stores">
        {hasLog && <LogBox table={table} />}
        <StoreBox
          title="change"
          note="recent upserts and deletes; streams read this store, because the table’s own snapshots are no appends"
          store={change}
          lag={
            table.pending_rows === 0 && table.pending_commits === 0 ? (
              <span className="dim">nothing pending</span>
            ) : (
              <span className="accent">
                {many(table.pending_rows, 'row')} pending in {many(table.pending_commits, 'commit')}
                {table.pending_since !== null && (
                  <>
                    {', the oldest '}
                    <When at={table.pending_since} />
                  </>
                )}
              </span>
            )
          }
        />
        <Flow
          above="merge"
          below={
            <span title="the change store's sequence number up to which base holds everything">
              {table.pending_commits === 0 ? (
                'base is up to date'
              ) : (
                <>
                  watermark <b>{table.watermark ?? 0}</b> of {table.change_sequence ?? 0}
                </>
              )}
            </span>
          }
          live={behind > 0 && table.pending_commits > 0}
        />
        <StoreBox
          title="base"
          note="one row per key"
          store={base}
          lag={base.delete_files > 0 ? many(base.delete_files, 'delete file') : <span className="dim">no delete files</span>}
        />
        {table.hive_name !== null && <HiveBox catalog={table.catalog} hive={table.hive_name} />}
      </section>
    </>
  );
}

/** Jobs of Flink by which deleted rows may come back. */
function SuspectedChangelogs({ table }: { table: Table }) {
  const { data } = useQuery(suspectedChangelogs(table.catalog, fullName(table)));
  return data?.map((changelog) => (
    <Note key={changelog.job} tone="warn" title="A job of Flink may bring deleted rows back">
      <div className="wrap-anywhere">{changelog.message}.</div>
      <div>
        Its last commit <When at={changelog.committed_at} />. “From Flink” in docs/streams.md says which way fits which query.
      </div>
    </Note>
  ));
}

function StoreBox({ title, note, store, lag }: { title: string; note: string; store: Store; lag: ReactNode }) {
  return (
    <div className={styles.box}>
      <div className="row spread">
        <b className="mono">{title}</b>
        <span className="dim" style={{ fontSize: 12 }}>
          v{store.format_version}
        </span>
      </div>
      <div className={styles.note}>{note}</div>
      <div className={styles.numbers}>
        <Figure name={store.records === 1 ? 'row' : 'rows'} value={<Count value={store.records} />} />
        <Figure name="size" value={<Bytes value={store.bytes} />} />
        <Figure name={store.data_files === 1 ? 'file' : 'files'} value={<Count value={store.data_files} />} />
        <Figure name={store.snapshots === 1 ? 'snapshot' : 'snapshots'} value={<Count value={store.snapshots} />} />
      </div>
      <div className={styles.lag}>{lag}</div>
    </div>
  );
}

function HiveBox({ catalog, hive }: { catalog: string; hive: string }) {
  const { data } = useQuery({ ...hiveTable(catalog, hive), refetchInterval: 5000 });
  return (
    <>
      <Flow
        back
        above="sync"
        live={false}
        below={
          data?.synced_at ? (
            <>
              synced <When at={data.synced_at} />
            </>
          ) : (
            'not synced yet'
          )
        }
      />
      <div className={styles.box}>
        <Link className="mono" to={paths.hive(catalog)}>
          <b>Hive</b>
        </Link>
        <div className={styles.note}>
          <span className="mono">{hive}</span>: its readers and writers go on
        </div>
        {data && (
          <div className={styles.numbers}>
            <Figure name="columns" value={<Count value={data.columns} />} />
            <Figure name="format" value={data.format} />
          </div>
        )}
        <div className={styles.lag}>
          {data?.drift ? (
            <div className="wrap-anywhere">
              <Mark look={{ ...WARNING, says: 'Out of sync' }} />{' '}
              <span className="dim">
                first seen <When at={data.drift_since} />
              </span>
              <div>{data.drift}</div>
            </div>
          ) : (
            <span className="dim">In sync</span>
          )}
          {data?.column_differences
            .filter((column_difference) => !column_difference.is_conflict)
            .map((item) => (
              <div key={item.column + item.what} className="dim wrap-anywhere">
                {item.what} <When at={item.since} />
              </div>
            ))}
          {data?.published_at && (
            <div className="dim">
              published <When at={data.published_at} />
            </div>
          )}
          {data?.unpublished && data.unpublished.commits > 0 && (
            <div className="accent">
              {many(data.unpublished.rows, 'change')} not published yet, the oldest <When at={data.unpublished.since} />
            </div>
          )}
        </div>
      </div>
    </>
  );
}
