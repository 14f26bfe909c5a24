/** How to read and write one table from each engine, with its real names. Pure text. */
import { dotted, partsOf, sqlName } from './names';
import { flinkLog, kafka, pythonChanges, sparkChanges, sparkSink } from './stream-snippets';

export interface Subject {
  catalog: string;
  name: string;
  keyed: boolean;
  view: boolean;
  key: string[];
  columns: { name: string; type: string }[];
  /** Whether the server has access control, so that engines need a token. */
  needsToken: boolean;
  /** The topic in front of the table. */
  log: { topic: string; format: string; brokers: string | null } | null;
}

export interface Snippet {
  title: string;
  note?: string;
  code: string;
}

const RUNTIME = 'org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0';

export function snippetsFor(subject: Subject, server: string): Record<string, Snippet[]> {
  const { keyed, view } = subject;
  return {
    PySpark: [
      pysparkRead(subject, server),
      ...(view ? [] : [keyed ? pysparkUpsert(subject) : pysparkAppend(subject), sparkSink(subject, server)]),
      ...(keyed ? [sparkChanges(subject)] : []),
    ],
    'Spark SQL': [sparkShell(subject, server), ...(keyed ? [sparkAppendChange(subject)] : [])],
    ...(view ? {} : { Trino: trino(subject, server), Flink: [...flink(subject, server), ...flinkLog(subject)], DuckDB: duckdb(subject, server) }),
    ...(subject.log === null ? {} : { Kafka: kafka(subject, server) }),
    Python: [...(keyed ? [arrow(subject, server)] : []), pyiceberg(subject, server), ...(keyed ? [pythonChanges(subject, server)] : [])],
    'Command line': [commands(subject)],
  };
}

/** For Firn's own commands and calls. */
export const full = ({ catalog, name }: Subject): string => `${dotted([catalog])}.${name}`;

/** For Spark. */
const sql = ({ catalog, name }: Subject): string => sqlName([catalog, ...partsOf(name)]);

export const python = (text: string): string => JSON.stringify(text);

export const shell = (text: string): string => (/^[\w.:/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const TOKEN = 'firn_…';

/** Where a token goes; Firn's own package and commands take it from the environment. */
const tokenNote = ({ needsToken }: Subject, text = 'Write your token for firn_… first.'): { note?: string } => (needsToken ? { note: text } : {});

const fromEnvironment = (subject: Subject): { note?: string } => tokenNote(subject, 'Set FIRN_TOKEN to your token first.');

function pysparkRead(subject: Subject, server: string): Snippet {
  return {
    title: 'Read',
    ...fromEnvironment(subject),
    code: [
      'import firn',
      '',
      `spark = firn.spark.session("${server}", app="look")`,
      subject.keyed ? `firn.spark.read(${python(full(subject))}).show()` : `spark.table(${python(sql(subject))}).show()`,
    ].join('\n'),
  };
}

function pysparkUpsert(subject: Subject): Snippet {
  return {
    title: 'Upsert and delete',
    note: 'Readers see the rows at once. Firn applies each batch name once, so you can repeat the call safely.',
    code: [
      `firn.spark.upsert(df, ${python(full(subject))}, batch="2026-11-21T10")`,
      `firn.spark.delete(df.select(${subject.key.map(python).join(', ')}), ${python(full(subject))}, batch="2026-11-21T10-deletes")`,
    ].join('\n'),
  };
}

function pysparkAppend(subject: Subject): Snippet {
  return { title: 'Append', code: `df.writeTo(${python(sql(subject))}).append()` };
}

function sparkShell(subject: Subject, server: string): Snippet {
  const conf = `spark.sql.catalog.${subject.catalog}`;
  return {
    title: 'Plain Spark, without Firn’s packages',
    ...tokenNote(subject),
    code: [
      'spark-sql \\',
      `  --packages ${RUNTIME} \\`,
      '  --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \\',
      `  --conf ${conf}=org.apache.iceberg.spark.SparkCatalog \\`,
      `  --conf ${conf}.type=rest \\`,
      `  --conf ${conf}.uri=${server}/iceberg \\`,
      `  --conf ${conf}.warehouse=${subject.catalog} \\`,
      ...(subject.needsToken ? [`  --conf ${conf}.token=${TOKEN} \\`] : []),
      `  --conf ${conf}.cache-enabled=false \\`,
      `  --conf ${conf}.rest-catalog-purge=true \\`,
      `  -e ${shell(`SELECT count(*) FROM ${sql(subject)}`)}`,
    ].join('\n'),
  };
}

function sparkAppendChange(subject: Subject): Snippet {
  const columns = subject.columns.map((column) => sqlName([column.name]));
  return {
    title: 'Upsert with plain SQL',
    note: "Append to the change store: _op is 'I' or 'U' to set a row, 'D' to delete it by its key.",
    code: [
      `INSERT INTO ${sql(subject)}.change (${[...columns, '_op'].join(', ')})`,
      `SELECT ${columns.join(', ')}, 'U' FROM my_changes`,
    ].join('\n'),
  };
}

/** For engines to which a nested namespace is a schema with dots in its name. */
function inSchema({ catalog, name }: Subject): string {
  const parts = partsOf(name);
  const schema = parts.slice(0, -1).join('.');
  return [catalog, schema, parts.at(-1) ?? ''].map(doubleQuoted).join('.');
}

const doubleQuoted = (text: string): string => (/^[a-z_][a-z0-9_]*$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`);

export const sqlText = (text: string): string => `'${text.replaceAll("'", "''")}'`;

function trino(subject: Subject, server: string): Snippet[] {
  return [
    {
      title: 'Connect',
      note: `In etc/catalog/${subject.catalog}.properties.`,
      code: [
        'connector.name=iceberg',
        'iceberg.catalog.type=rest',
        `iceberg.rest-catalog.uri=${server}/iceberg`,
        `iceberg.rest-catalog.warehouse=${subject.catalog}`,
        'iceberg.rest-catalog.nested-namespace-enabled=true',
        ...(subject.needsToken ? ['iceberg.rest-catalog.security=OAUTH2', `iceberg.rest-catalog.oauth2.token=${TOKEN}`] : []),
      ].join('\n'),
    },
    { title: 'Read', code: `SELECT count(*) FROM ${inSchema(subject)};` },
  ];
}

function flink(subject: Subject, server: string): Snippet[] {
  const parts = partsOf(subject.name);
  const above = parts.slice(0, -2).join('.');
  const options: Record<string, string> = {
    type: 'iceberg',
    'catalog-type': 'rest',
    uri: `${server}/iceberg`,
    warehouse: subject.catalog,
    ...(above === '' ? {} : { 'base-namespace': above }),
    ...(subject.needsToken ? { token: TOKEN } : {}),
  };
  const name = sqlName([subject.catalog, ...parts.slice(-2)]);
  const columns = subject.columns.map((column) => sqlName([column.name])).join(', ');
  const assignments = Object.entries(options).map(([key, value]) => `  ${sqlText(key)} = ${sqlText(value)}`);
  return [
    { title: 'Connect', ...tokenNote(subject), code: [`CREATE CATALOG ${sqlName([subject.catalog])} WITH (`, assignments.join(',\n'), ');'].join('\n') },
    { title: 'Read', code: `SELECT count(*) FROM ${name};` },
    ...(subject.keyed
      ? [
          {
            title: 'Upsert a stream',
            note: 'Each checkpoint is one commit. The stream may delete rows, unless the table has a sequence field.',
            code: `INSERT INTO ${name} /*+ OPTIONS('upsert-enabled'='true') */\nSELECT ${columns} FROM my_stream;`,
          },
        ]
      : []),
  ];
}

function duckdb(subject: Subject, server: string): Snippet[] {
  return [
    {
      title: 'Read',
      ...tokenNote(subject),
      code: [
        'INSTALL httpfs;',
        'INSTALL iceberg;',
        'LOAD httpfs;',
        'LOAD iceberg;',
        ...(subject.needsToken ? [`CREATE SECRET firn (TYPE iceberg, TOKEN ${sqlText(TOKEN)});`] : []),
        `ATTACH ${sqlText(subject.catalog)} AS ${doubleQuoted(subject.catalog)} (`,
        '  TYPE iceberg,',
        `  ENDPOINT ${sqlText(`${server}/iceberg`)},`,
        subject.needsToken ? '  SECRET firn,' : "  AUTHORIZATION_TYPE 'none',",
        '  SUPPORT_NESTED_NAMESPACES true',
        ');',
        `SELECT count(*) FROM ${inSchema(subject)};`,
      ].join('\n'),
    },
  ];
}

function arrow(subject: Subject, server: string): Snippet {
  return {
    title: 'Merged rows as Arrow, without Spark',
    ...fromEnvironment(subject),
    code: ['import firn', '', `client = firn.connect("${server}")`, `table = client.scan(${python(full(subject))}).to_arrow()`].join('\n'),
  };
}

function pyiceberg(subject: Subject, server: string): Snippet {
  return {
    title: 'PyIceberg',
    ...(subject.keyed ? { note: 'Other Iceberg engines read the merged rows too: Trino, Flink, DuckDB, Polars and more.' } : {}),
    ...tokenNote(subject),
    code: [
      'from pyiceberg.catalog import load_catalog',
      '',
      `catalog = load_catalog("${subject.catalog}", type="rest", uri="${server}/iceberg", warehouse="${subject.catalog}"${subject.needsToken ? `, token="${TOKEN}"` : ''})`,
      `table = catalog.load_table((${partsOf(subject.name).map(python).join(', ')})).scan().to_arrow()`,
    ].join('\n'),
  };
}

function commands(subject: Subject): Snippet {
  return {
    title: 'firn',
    ...fromEnvironment(subject),
    code: [
      `firn table show ${shell(full(subject))}`,
      `firn sql ${shell(`SELECT count(*) FROM ${sql(subject)}`)}`,
      ...(subject.keyed ? [`firn table merge ${shell(full(subject))}`, `firn changes ${shell(full(subject))} --since 0 --follow`] : []),
      ...(subject.log === null ? [] : [`firn drain ${shell(full(subject))}`]),
    ].join('\n'),
  };
}
