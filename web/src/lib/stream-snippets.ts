/** How records stream into one table, and its changes out, with its real names. Pure text. */
import { partsOf, sqlName } from './names';
import { full, python, shell, sqlText, type Snippet, type Subject } from './snippets';

/** A table of a connection does not say where the brokers are. */
const BROKERS = 'KAFKA:9092';

const own = ({ name }: Subject): string => partsOf(name).at(-1) ?? name;

export function sparkSink(subject: Subject, server: string): Snippet {
  const name = own(subject);
  const table = python(full(subject));
  return {
    title: 'Stream from a topic of Kafka',
    note: 'The table remembers its position in the topic: a query that restarts loses nothing and writes nothing twice.',
    code: [
      'import firn',
      'from pyspark.sql import functions as F',
      '',
      `spark = firn.spark.session("${server}", app=${python(name)}, kafka=True)`,
      `source = firn.spark.resume(${table}, writer=${python(name)}, topic=${python(name)})`,
      `records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "${subject.log?.brokers ?? BROKERS}").options(**source).load()`,
      `value = F.from_json(F.col("value").cast("string"), ${python(schemaOf(subject))})`,
      'rows = records.select(value.alias("value")).select("value.*")',
      `firn.spark.write_stream(rows, ${table}, writer=${python(name)}, checkpoint=${python(`/checkpoints/${name}`)}).awaitTermination()`,
    ].join('\n'),
  };
}

/** Iceberg's types as Spark writes them. */
function schemaOf(subject: Subject): string {
  return subject.columns.map(({ name, type }) => `${sqlName([name])} ${sparkType(type)}`).join(', ');
}

function sparkType(type: string): string {
  const known: Record<string, string> = { long: 'BIGINT', int: 'INT', timestamptz: 'TIMESTAMP', timestamp: 'TIMESTAMP_NTZ', uuid: 'STRING', time: 'STRING' };
  return known[type] ?? type.toUpperCase();
}

export function sparkChanges(subject: Subject): Snippet {
  const table = python(full(subject));
  return {
    title: 'Read changes',
    note: 'A consumer gets the changes of each new version once; expiry keeps those that it has not read.',
    code: [
      `firn.spark.read_changes(${table}, since=0, images="both").show()`,
      `firn.spark.on_changes(${table}, lambda frame, version: frame.show(), consumer="my program")`,
    ].join('\n'),
  };
}

export function pythonChanges(subject: Subject, server: string): Snippet {
  return {
    title: 'Changes, without Spark',
    code: [
      'import firn',
      '',
      `client = firn.connect("${server}")`,
      `for change in client.tables[${python(full(subject))}].changes(since=0, images="both").to_pylist():`,
      '    print(change["_change_type"], change["_before"], change["_after"])',
    ].join('\n'),
  };
}

/** The formats that Firn's producer writes; connectors and other serializers write the others. */
const PRODUCED = ['firn-json', 'upsert-json'];

/** A producer that knows the table's format, key and brokers, and the drain that follows. */
export function kafka(subject: Subject, server: string): Snippet[] {
  const { log, key, columns } = subject;
  if (log === null) return [];
  const dict = (names: string[]) => `{${names.map((name) => `${python(name)}: …`).join(', ')}}`;
  const producer: Snippet = {
    title: 'Write to the log',
    note: 'The producer sets key, partition and format, and refuses rows that do not fit the table. Drains see all records of a transaction, or none.',
    code: [
      'import firn',
      'import firn.log',
      '',
      `client = firn.connect("${server}")`,
      `producer = firn.log.producer(client, ${python(full(subject))}, transactional_id=${python(`${own(subject)}-1`)})`,
      'with producer.transaction():',
      `    producer.upsert(${dict(columns.map(({ name }) => name))})`,
      `    producer.delete(${dict(key)})`,
    ].join('\n'),
  };
  return [
    ...(PRODUCED.includes(log.format) ? [producer] : []),
    { title: 'Bring the records to the table', code: `firn log check ${shell(full(subject))}\nfirn drain ${shell(full(subject))}` },
  ];
}

/** Changelog queries write to the log, if it has their format. */
export function flinkLog(subject: Subject): Snippet[] {
  const { log, key, columns } = subject;
  if (log?.format !== 'upsert-json') return [];
  const name = `${own(subject)}_log`;
  const options: Record<string, string> = {
    connector: 'upsert-kafka',
    topic: log.topic,
    'properties.bootstrap.servers': log.brokers ?? BROKERS,
    'key.format': 'json',
    'value.format': 'json',
    'sink.delivery-guarantee': 'exactly-once',
    'sink.transactional-id-prefix': name,
  };
  const lines = columns.map((column) => `  ${sqlName([column.name])} ${flinkType(column.type)},`);
  return [
    {
      title: 'Write a changelog to the log',
      note: 'Readers of the topic see each row within milliseconds; a drain brings it to the table. Rows may be updated and deleted.',
      code: [
        `CREATE TABLE ${sqlName([name])} (`,
        ...lines,
        `  PRIMARY KEY (${key.map((column) => sqlName([column])).join(', ')}) NOT ENFORCED`,
        ') WITH (',
        Object.entries(options)
          .map(([option, value]) => `  ${sqlText(option)} = ${sqlText(value)}`)
          .join(',\n'),
        ');',
        `INSERT INTO ${sqlName([name])} SELECT * FROM my_changelog;`,
      ].join('\n'),
    },
  ];
}

function flinkType(type: string): string {
  const known: Record<string, string> = { long: 'BIGINT', int: 'INT', timestamptz: 'TIMESTAMP_LTZ(6)', timestamp: 'TIMESTAMP(6)', uuid: 'STRING', binary: 'BYTES' };
  return known[type] ?? type.toUpperCase();
}
