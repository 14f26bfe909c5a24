import { useLayoutEffect, useRef, type ReactNode } from 'react';

import styles from './components.module.css';

interface PanelProps {
  title?: ReactNode;
  aside?: ReactNode;
  flush?: boolean;
  children: ReactNode;
}

/** A titled area of a page. `flush` lets a table reach its borders. */
export function Panel({ title, aside, flush = false, children }: PanelProps) {
  return (
    <section className={styles.panel}>
      {(title !== undefined || aside !== undefined) && (
        <header className={styles.panelHead}>
          {title !== undefined && <h2 className={styles.panelTitle}>{title}</h2>}
          {aside}
        </header>
      )}
      {flush ? <Scrolling>{children}</Scrolling> : <div className={styles.panelBody}>{children}</div>}
    </section>
  );
}

/** Scrolls sideways when it has to; then a keyboard must be able to reach it. */
function Scrolling({ children }: { children: ReactNode }) {
  const area = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = area.current;
    if (element === null) return;
    const look = () => {
      if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
      else element.removeAttribute('tabindex');
    };
    const seen = new ResizeObserver(look);
    seen.observe(element);
    for (const child of element.children) seen.observe(child);
    look();
    return () => seen.disconnect();
  });
  return (
    <div ref={area} className={styles.panelFlush}>
      {children}
    </div>
  );
}

interface PageProps {
  title: ReactNode;
  sub?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** A page: its name, what can be done, its content. */
export function Page({ title, sub, actions, children }: PageProps) {
  return (
    <div className={styles.page}>
      <header className={styles.pageHead}>
        <div className="grow">
          <h1 className={styles.pageTitle}>{title}</h1>
          {sub !== undefined && <div className={styles.pageSub}>{sub}</div>}
        </div>
        {actions !== undefined && <div className="row row-wrap">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface Fact {
  name: string;
  value: ReactNode;
  note?: ReactNode;
}

/** Names and values, beside each other. */
export function Facts({ facts, columns = false }: { facts: Fact[]; columns?: boolean }) {
  return (
    <dl className={columns ? styles.factList : styles.facts}>
      {facts.map(({ name, value, note }) => (
        <div key={name} className={styles.fact}>
          <dt>{name}</dt>
          <dd>
            {value}
            {note !== undefined && <span className={styles.factNote}>{note}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
