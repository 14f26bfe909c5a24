import { useQuery } from '@tanstack/react-query';

import { pipelineVersion } from '../../api/pipeline-queries';
import type { Pipeline, PipelineTable } from '../../api/types';
import { Panel } from '../../components/panel';
import { definitionOf, markReasons, type FullReason } from '../../lib/pipelines';
import styles from './pipelines.module.css';

/** The files that define a table: its own, those of its Python, and those of views with parts that force full. */
export function QueryFiles({ pipeline, table }: { pipeline: Pipeline; table: PipelineTable }) {
  const { data: version } = useQuery(pipelineVersion(pipeline.name, pipeline.version));
  const { path, query, reasons, code } = definitionOf(table);
  const placed = reasons.map((reason) => ({ ...reason, path: reason.path ?? path }));
  const files = [...new Set([path, ...(code?.modules ?? []), ...placed.map((reason) => reason.path)])].flatMap((name) => version?.files.filter((file) => file.path === name) ?? []);
  if (files.length === 0) return <SqlFile path={path} text={query} reasons={[]} />;
  return (
    <>
      {files.map((file) => (
        <SqlFile key={file.path} path={file.path ?? ''} text={file.text ?? ''} reasons={placed.filter((reason) => reason.path === file.path)} />
      ))}
    </>
  );
}

function SqlFile({ path, text, reasons }: { path: string; text: string; reasons: FullReason[] }) {
  return (
    <Panel flush title={path.endsWith('.py') ? 'Python' : 'Query'} aside={<span className="mono dim">{path}</span>}>
      <pre className={styles.sql} tabIndex={0} aria-label={`query in ${path}`}>
        {markReasons(text.replace(/\n$/, ''), reasons).map((parts, index) => (
          <span key={index} className={styles.line}>
            <span className={styles.number} aria-hidden>
              {index + 1}
            </span>
            {parts.map(({ text: part, forced }, at) =>
              forced === undefined ? (
                part
              ) : (
                <mark key={at} className={styles.forced} title={`Each run computes all rows: ${forced.text}`}>
                  {part}
                </mark>
              ),
            )}
          </span>
        ))}
      </pre>
    </Panel>
  );
}
