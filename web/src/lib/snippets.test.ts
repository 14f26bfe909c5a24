import { describe, expect, it } from 'vitest';

import { snippetsFor, type Subject } from './snippets';

const orders: Subject = {
  catalog: 'lake',
  name: 'shop.orders',
  keyed: true,
  view: false,
  key: ['id', 'region'],
  columns: [
    { name: 'id', type: 'long' },
    { name: 'region', type: 'string' },
    { name: 'amount', type: 'double' },
  ],
  needsToken: false,
  log: null,
};

const text = (subject: Subject): string =>
  Object.values(snippetsFor(subject, 'http://127.0.0.1:8630'))
    .flat()
    .map((row) => row.code)
    .join('\n');

describe('snippets', () => {
  it('have a place for the token of each engine, only with access control', () => {
    const withToken = text({ ...orders, needsToken: true });
    for (const line of [
      '--conf spark.sql.catalog.lake.token=firn_…',
      'iceberg.rest-catalog.oauth2.token=firn_…',
      "'token' = 'firn_…'",
      "CREATE SECRET firn (TYPE iceberg, TOKEN 'firn_…');",
      'token="firn_…")',
    ])
      expect(withToken).toContain(line);
    expect(withToken).not.toContain("AUTHORIZATION_TYPE 'none'");
    expect(text(orders)).not.toContain('firn_…');
  });

  it('delete by the whole key', () => {
    expect(text(orders)).toContain('df.select("id", "region"), "lake.shop.orders"');
  });

  it('write changes of a keyed table to its change store, with every column', () => {
    expect(text(orders)).toContain("INSERT INTO lake.shop.orders.change (id, region, amount, _op)\nSELECT id, region, amount, 'U'");
  });

  it('let streams upsert into a keyed table', () => {
    expect(text(orders)).toContain("/*+ OPTIONS('upsert-enabled'='true') */");
    expect(text({ ...orders, keyed: false, key: [] })).not.toContain('upsert-enabled');
  });

  it('read a keyed table as a table from any engine', () => {
    expect(text(orders)).toContain('catalog.load_table(("shop", "orders")).scan()');
    expect(text(orders)).not.toContain('load_table(("shop", "orders", "base"');
  });

  it('name a table in a nested namespace as each engine does', () => {
    const nested = text({ ...orders, name: 'shop.eu.orders' });
    expect(nested).toContain('SELECT count(*) FROM lake."shop.eu".orders;');
    expect(nested).toContain("  'base-namespace' = 'shop'\n);");
    expect(nested).toContain('SELECT count(*) FROM lake.eu.orders;');
    expect(text(orders)).toContain('SELECT count(*) FROM lake.shop.orders;');
    expect(text(orders)).not.toContain('base-namespace');
  });

  it('offer no upsert where there is no key, and no write to a view', () => {
    const plain = text({ ...orders, keyed: false, key: [] });
    expect(plain).not.toContain('upsert');
    expect(plain).toContain('df.writeTo("lake.shop.orders").append()');
    expect(text({ ...orders, keyed: false, view: true })).not.toContain('append()');
  });

  it('quote odd names as each language wants them', () => {
    const odd = { ...orders, name: "`eu.west`.it's" };
    expect(text(odd)).toContain('firn.spark.read("lake.`eu.west`.it\'s")');
    expect(text(odd)).toContain("INSERT INTO lake.`eu.west`.`it's`.change (");
    expect(text(odd)).toContain("firn table show 'lake.`eu.west`.it'\\''s'");
    expect(text({ ...odd, keyed: false })).toContain('catalog.load_table(("eu.west", "it\'s"))');
  });

  it('stream from a topic into the table, and its changes out', () => {
    expect(text(orders)).toContain('firn.spark.resume("lake.shop.orders", writer="orders", topic="orders")');
    expect(text(orders)).toContain('firn.spark.write_stream(rows, "lake.shop.orders", writer="orders"');
    expect(text(orders)).toContain('client.tables["lake.shop.orders"].changes(since=0, images="both")');
    const plain = text({ ...orders, keyed: false, key: [] });
    expect(plain).toContain('firn.spark.write_stream(');
    expect(plain).not.toContain('.changes(');
    expect(text({ ...orders, keyed: false, view: true })).not.toContain('write_stream');
  });

  it('produce to the log of a table in its own format', () => {
    expect(text(orders)).not.toContain('firn.log.producer');
    const firn = text({ ...orders, log: { topic: "orders' log", format: 'firn-json', brokers: 'kafka-1:9092' } });
    expect(firn).toContain('client = firn.connect("http://127.0.0.1:8630")');
    expect(firn).toContain('firn.log.producer(client, "lake.shop.orders", transactional_id="orders-1")');
    expect(firn).toContain('producer.upsert({"id": …, "region": …, "amount": …})');
    expect(firn).toContain('producer.delete({"id": …, "region": …})');
    expect(firn).toContain('firn drain lake.shop.orders');
    expect(firn).not.toContain('upsert-kafka');
    const flinks = text({ ...orders, log: { topic: "orders' log", format: 'upsert-json', brokers: null } });
    expect(flinks).toContain("  'connector' = 'upsert-kafka',");
    expect(flinks).toContain("  'topic' = 'orders'' log',");
    expect(flinks).toContain('  id BIGINT,');
    expect(flinks).toContain('  PRIMARY KEY (id, region) NOT ENFORCED');
    expect(flinks).toContain("'properties.bootstrap.servers' = 'KAFKA:9092'");
    expect(flinks).toContain('firn.log.producer(');
    const avro = text({ ...orders, name: "shop.it's", log: { topic: 'orders', format: 'avro', brokers: null } });
    expect(avro).not.toContain('firn.log.producer');
    expect(avro).toContain("firn log check 'lake.shop.it'\\''s'");
  });
});
