import { PipelineMark } from '../../components/pipeline-mark';
import { Panel } from '../../components/panel';
import { When } from '../../components/figures';
import { many } from '../../lib/format';
import { layOut, type Place } from '../../lib/pipelines';
import type { PipelineTable } from '../../api/types';
import styles from './pipelines.module.css';

const WIDTH = 220;
const HEIGHT = 84;
const GAP = { x: 70, y: 18 };

const left = ({ column }: Place) => column * (WIDTH + GAP.x);
const top = ({ row }: Place) => row * (HEIGHT + GAP.y);

/** The tables of a pipeline and their inputs; an arrow leads from a table to those that read it. */
export function Graph({ tables, chosen, choose }: { tables: readonly PipelineTable[]; chosen: string | undefined; choose: (table: string) => void }) {
  const { places, edges, columns, rows } = layOut(tables);
  const size = { width: columns * (WIDTH + GAP.x) - GAP.x, height: rows * (HEIGHT + GAP.y) - GAP.y };
  return (
    <Panel flush title="Tables and their inputs">
      <div className={styles.graph} style={{ width: size.width, height: size.height }}>
        <svg className={styles.edges} {...size} aria-hidden>
          {edges.map(({ from, to }) => (
            <path key={`${from.name} ${to.name}`} d={curve(from, to)} data-lit={chosen === from.name || chosen === to.name} />
          ))}
        </svg>
        {places.map((place) => (
          <div key={place.name} className={styles.place} style={{ left: left(place), top: top(place), width: WIDTH, height: HEIGHT }}>
            {place.table === undefined ? (
              <div className={styles.input}>
                <span className={styles.name} title={place.name}>{place.name}</span>
                <span className="dim">input</span>
              </div>
            ) : (
              <button type="button" className={styles.card} aria-pressed={chosen === place.name} onClick={() => choose(place.name)}>
                <span className={styles.name} title={place.name}>{place.name}</span>
                <PipelineMark state={place.table.state} />
                <Lag table={place.table} />
              </button>
            )}
          </div>
        ))}
      </div>
    </Panel>
  );
}

function Lag({ table }: { table: PipelineTable }) {
  if (table.behind === null || table.behind === 0) return null;
  return (
    <span className="dim">
      {many(table.behind, 'input')} changed
      {table.behind_since !== null && (
        <>
          , <When at={table.behind_since} />
        </>
      )}
    </span>
  );
}

/** From the right edge of one card to the left edge of the other. */
function curve(from: Place, to: Place): string {
  const start = { x: left(from) + WIDTH, y: top(from) + HEIGHT / 2 };
  const end = { x: left(to), y: top(to) + HEIGHT / 2 };
  const bend = Math.max(24, (end.x - start.x) / 2);
  return `M ${start.x} ${start.y} C ${start.x + bend} ${start.y}, ${end.x - bend} ${end.y}, ${end.x} ${end.y}`;
}
