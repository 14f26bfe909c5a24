import { Select } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Fragment } from 'react';

import { pipelineVersions } from '../../api/pipeline-queries';
import type { PipelineVersion } from '../../api/types';
import { When } from '../../components/figures';
import { ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { diffLines, foldSame } from '../../lib/diff';
import { many } from '../../lib/format';
import { useUrlState } from '../../lib/url-state';
import styles from './pipelines.module.css';

/** The files of one version; those that the version before it has otherwise come first. */
export function Versions({ pipeline }: { pipeline: string }) {
  const [get, set] = useUrlState();
  const { data, error } = useInfiniteQuery(pipelineVersions(pipeline));
  const versions = data?.pages.flatMap((page) => page.items);
  if (versions === undefined) return error === null ? <span className="dim">…</span> : <ProblemNote error={error} what="cannot list the versions" />;
  const index = Math.max(0, versions.findIndex(({ version }) => String(version) === get('version')));
  const [shown, before] = [versions[index], versions[index + 1]];
  if (shown === undefined) return <span className="dim">No version is kept.</span>;
  const files = shown.files.map((file) => ({ path: file.path ?? '', text: file.text ?? '', old: textOf(before, file.path), change: changeOf(file, before) }));
  return (
    <div className="stack">
      <div className="row row-wrap">
        <Select
          aria-label="version"
          w={160}
          allowDeselect={false}
          value={String(shown.version)}
          data={versions.map(({ version }) => ({ value: String(version), label: `version ${version}` }))}
          onChange={(value) => set({ version: value ?? undefined })}
        />
        <span>
          put <When at={shown.created_at} />
          {shown.author !== null && <> by {shown.author}</>}
        </span>
      </div>
      {files
        .sort((a, b) => Number(b.change !== '') - Number(a.change !== ''))
        .map(({ path, text, old, change }) => (
          <Panel key={path} flush title={<span className="mono">{path}</span>} aside={<span className="dim">{change}</span>}>
            {old !== undefined && old !== text ? <Diff before={old} after={text} /> : <pre className={styles.sql}>{text}</pre>}
          </Panel>
        ))}
    </div>
  );
}

const textOf = (version: PipelineVersion | undefined, path: string | undefined) => version?.files.find((file) => file.path === path)?.text;

/** The lines that differ, with some around them. */
function Diff({ before, after }: { before: string; after: string }) {
  return (
    <pre className={styles.sql}>
      {foldSame(diffLines(before, after)).map(({ line, gap }, index) => (
        <Fragment key={index}>
          {gap > 0 && <span className={styles.gap}>… {many(gap, 'line')} as before</span>}
          <span className={`${styles.line ?? ''} ${line.kind === 'same' ? '' : (styles[line.kind] ?? '')}`}>
            {SIGNS[line.kind]} {line.text}
          </span>
        </Fragment>
      ))}
    </pre>
  );
}

const SIGNS = { same: ' ', added: '+', removed: '−' };

function changeOf(file: PipelineVersion['files'][number], before: PipelineVersion | undefined): string {
  if (before === undefined) return '';
  const old = before.files.find(({ path }) => path === file.path);
  if (old === undefined) return `new in this version`;
  return old.text === file.text ? '' : `changed since version ${before.version}`;
}
