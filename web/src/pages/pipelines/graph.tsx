import { useLayoutEffect, useRef } from 'react';

import { Panel } from '../../components/panel';
import { PipelineMark } from '../../components/pipeline-mark';
import { span } from '../../lib/format';
import { lagText, layOut, type Place } from '../../lib/pipelines';
import type { PipelineEdge, PipelineGraph, PipelineNode, PipelineTable } from '../../api/types';
import styles from './pipelines.module.css';

const WIDTH = 220;
const HEIGHT = 84;
const GAP = { x: 90, y: 18 };

const left = ({ column }: Place) => column * (WIDTH + GAP.x);
const top = ({ row }: Place) => row * (HEIGHT + GAP.y);

interface GraphProps {
  tables: readonly PipelineTable[];
  /** How far tables are behind; not there until the server has answered. */
  graph: PipelineGraph | undefined;
  chosen: string | undefined;
  choose: (table: string) => void;
}

/** The tables of a pipeline and their inputs. A line leads from a table to those that read it, with how far they are behind it. */
export function Graph({ tables, graph, chosen, choose }: GraphProps) {
  const { places, edges, columns, rows } = layOut(tables);
  const area = useRef<HTMLDivElement>(null);
  const shown = places.find(({ name }) => name === chosen);
  const start = shown === undefined ? 0 : left(shown);
  // On a narrow screen the chosen table would be out of sight.
  useLayoutEffect(() => {
    const element = area.current;
    if (element !== null && start + WIDTH > element.scrollLeft + element.clientWidth) element.scrollLeft = start - GAP.x / 2;
  }, [start]);
  const size = { width: columns * (WIDTH + GAP.x) - GAP.x, height: rows * (HEIGHT + GAP.y) - GAP.y };
  return (
    <Panel flush title="Tables and their inputs">
      <div ref={area} className={styles.graphScroll}>
      <div className={styles.graph} style={{ width: size.width, height: size.height }}>
        <svg className={styles.edges} {...size} aria-hidden>
          {edges.map(({ from, to }) => (
            <path
              key={`${from.name} ${to.name}`}
              d={curve(from, to)}
              data-lit={chosen === from.name || chosen === to.name}
              data-changed={edgeOf(graph, from, to)?.has_changes === true}
            />
          ))}
        </svg>
        {edges.map(({ from, to }) => (
          <EdgeLag key={`${from.name} ${to.name}`} from={from} to={to} edge={edgeOf(graph, from, to)} />
        ))}
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
                <Lag node={graph?.nodes.find(({ table }) => table === place.name)} />
              </button>
            )}
          </div>
        ))}
      </div>
      </div>
    </Panel>
  );
}

const edgeOf = (graph: PipelineGraph | undefined, from: Place, to: Place) => graph?.edges.find(({ source, target }) => source === from.name && target === to.name);

/** On the line: how old the first commit is that the reading table does not show. */
function EdgeLag({ from, to, edge }: { from: Place; to: Place; edge: PipelineEdge | undefined }) {
  if (edge?.has_changes !== true) return null;
  const middle = { left: (left(from) + WIDTH + left(to)) / 2, top: (top(from) + top(to) + HEIGHT) / 2 };
  const text = edge.lag_seconds == null ? 'new' : span(edge.lag_seconds);
  return (
    <span className={styles.edgeLag} style={middle} title={`${edge.target} does not show commits to ${edge.source}; the first one is ${text} old`}>
      {text}
    </span>
  );
}

function Lag({ node }: { node: PipelineNode | undefined }) {
  const { text, late } = node === undefined ? { text: '', late: false } : lagText(node);
  return text === '' ? null : <span className={late ? styles.late : 'dim'}>{text}</span>;
}

/** From the right edge of one card to the left edge of the other. */
function curve(from: Place, to: Place): string {
  const start = { x: left(from) + WIDTH, y: top(from) + HEIGHT / 2 };
  const end = { x: left(to), y: top(to) + HEIGHT / 2 };
  const bend = Math.max(24, (end.x - start.x) / 2);
  return `M ${start.x} ${start.y} C ${start.x + bend} ${start.y}, ${end.x - bend} ${end.y}, ${end.x} ${end.y}`;
}
