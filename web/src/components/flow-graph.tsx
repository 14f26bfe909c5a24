import { Fragment, useLayoutEffect, useRef, type ReactNode } from 'react';

import styles from './flow-graph.module.css';

const WIDTH = 220;
const GAP = { x: 90, y: 18 };

/** The place of a card: columns from the left, rows from the top. */
export interface FlowPlace {
  id: string;
  column: number;
  row: number;
}

export interface FlowLine<P extends FlowPlace> {
  from: P;
  to: P;
  /** Drawn in the colour of what is chosen. */
  lit?: boolean;
  changed?: boolean;
  /** In the middle of the line. */
  label?: { text: string; title: string } | undefined;
}

interface FlowGraphProps<P extends FlowPlace> {
  places: readonly P[];
  lines: readonly FlowLine<P>[];
  height: number;
  /** The card that a narrow screen shows first. */
  shown: P | undefined;
  card: (place: P) => ReactNode;
}

/** Cards in columns, and lines from left to right. */
export function FlowGraph<P extends FlowPlace>({ places, lines, height, shown, card }: FlowGraphProps<P>) {
  const area = useRef<HTMLDivElement>(null);
  const start = shown === undefined ? 0 : left(shown);
  // On a narrow screen the chosen card would be out of sight.
  useLayoutEffect(() => {
    const element = area.current;
    if (element !== null && start + WIDTH > element.scrollLeft + element.clientWidth) element.scrollLeft = start - GAP.x / 2;
  }, [start]);
  const top = ({ row }: FlowPlace) => row * (height + GAP.y);
  const size = {
    width: Math.max(0, ...places.map((place) => left(place) + WIDTH)),
    height: Math.max(0, ...places.map((place) => top(place) + height)),
  };
  const curve = ({ from, to }: FlowLine<P>) => curveOf({ x: left(from) + WIDTH, y: top(from) + height / 2 }, { x: left(to), y: top(to) + height / 2 });
  return (
    <div ref={area} className={styles.scroll}>
      <div className={styles.graph} style={size}>
        <svg className={styles.edges} {...size} aria-hidden>
          {lines.map((line) => (
            <path key={keyOf(line)} d={curve(line)} data-lit={line.lit === true} data-changed={line.changed === true} />
          ))}
        </svg>
        {lines.map((line) => (
          <Fragment key={keyOf(line)}>
            {line.label !== undefined && (
              <span className={styles.label} style={{ left: (left(line.from) + WIDTH + left(line.to)) / 2, top: (top(line.from) + top(line.to) + height) / 2 }} title={line.label.title}>
                {line.label.text}
              </span>
            )}
          </Fragment>
        ))}
        {places.map((place) => (
          <div key={place.id} className={styles.place} style={{ left: left(place), top: top(place), width: WIDTH, height }}>
            {card(place)}
          </div>
        ))}
      </div>
    </div>
  );
}

const left = ({ column }: FlowPlace) => column * (WIDTH + GAP.x);

const keyOf = ({ from, to }: { from: FlowPlace; to: FlowPlace }) => `${from.id} ${to.id}`;

/** From the right edge of one card to the left edge of the other. */
function curveOf(start: { x: number; y: number }, end: { x: number; y: number }): string {
  const bend = Math.max(24, (end.x - start.x) / 2);
  return `M ${start.x} ${start.y} C ${start.x + bend} ${start.y}, ${end.x - bend} ${end.y}, ${end.x} ${end.y}`;
}
