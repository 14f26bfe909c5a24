import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { scopeTrends } from '../api/trend-queries';
import { Databases } from '../components/databases';
import { Page } from '../components/panel';
import { Trends, useRange } from '../components/trends';
import { paths } from '../lib/paths';
import { useUrlState } from '../lib/url-state';
import styles from './tables.module.css';

/** How a catalog, or one of its databases, has changed. */
export function TrendsPage() {
  const { catalog = '' } = useParams();
  const [get] = useUrlState();
  const [range, setRange] = useRange();
  const database = get('database');
  const { data, error } = useQuery(scopeTrends(catalog, database, range));
  const of = database ?? catalog;
  return (
    <Page
      title="Trends"
      sub={<>all tables of <span className="mono">{of}</span> that you may read, added up; the health is their average</>}
      actions={
        <Button component={Link} to={paths.tables(catalog, database)} variant="default">
          Tables of {of}
        </Button>
      }
    >
      <div className={styles.split}>
        <Databases catalog={catalog} chosen={database} all="All databases" to={(row) => paths.trends(catalog, row)} />
        <div className={`stack ${styles.list}`}>
          <Trends trend={data} error={error} isTable={false} range={range} setRange={setRange} />
        </div>
      </div>
    </Page>
  );
}
