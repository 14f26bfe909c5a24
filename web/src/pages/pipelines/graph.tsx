import { FlowGraph } from '../../components/flow-graph';
import cards from '../../components/flow-graph.module.css';
import { Panel } from '../../components/panel';
import { PipelineMark } from '../../components/pipeline-mark';
import { span } from '../../lib/format';
import { lagText, layOut, type Place } from '../../lib/pipelines';
import type { PipelineEdge, PipelineGraph, PipelineNode, PipelineTable } from '../../api/types';
import styles from './pipelines.module.css';

const HEIGHT = 84;

interface GraphProps {
  tables: readonly PipelineTable[];
  /** How far tables are behind; not there until the server has answered. */
  graph: PipelineGraph | undefined;
  chosen: string | undefined;
  choose: (table: string) => void;
}

/** The tables of a pipeline and their inputs. A line leads from a table to those that read it, with how far they are behind it. */
export function Graph({ tables, graph, chosen, choose }: GraphProps) {
  const { places, edges } = layOut(tables);
  const lines = edges.map(({ from, to }) => {
    const edge = edgeOf(graph, from, to);
    return { from, to, lit: chosen === from.name || chosen === to.name, changed: edge?.has_changes === true, label: labelOf(edge) };
  });
  return (
    <Panel flush title="Tables and their inputs">
      <FlowGraph
        places={places}
        lines={lines}
        height={HEIGHT}
        shown={places.find(({ name }) => name === chosen)}
        card={(place) =>
          place.table === undefined ? (
            <div className={cards.input}>
              <span className={cards.name} title={place.name}>{place.name}</span>
              <span className="dim">input</span>
            </div>
          ) : (
            <button type="button" className={cards.card} aria-pressed={chosen === place.name} onClick={() => choose(place.name)}>
              <span className={cards.name} title={place.name}>{place.name}</span>
              <PipelineMark state={place.table.state} />
              <Lag node={graph?.nodes.find(({ table }) => table === place.name)} />
            </button>
          )
        }
      />
    </Panel>
  );
}

const edgeOf = (graph: PipelineGraph | undefined, from: Place, to: Place) => graph?.edges.find(({ source, target }) => source === from.name && target === to.name);

/** On the line: how old the first commit is that the reading table does not show. */
function labelOf(edge: PipelineEdge | undefined) {
  if (edge?.has_changes !== true) return undefined;
  const text = edge.lag_seconds == null ? 'new' : span(edge.lag_seconds);
  return { text, title: `${edge.target} does not show commits to ${edge.source}; the first one is ${text} old` };
}

function Lag({ node }: { node: PipelineNode | undefined }) {
  const { text, late } = node === undefined ? { text: '', late: false } : lagText(node);
  return text === '' ? null : <span className={late ? styles.late : 'dim'}>{text}</span>;
}
