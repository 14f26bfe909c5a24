import { DUCKDB_FUNCTIONS, SPARK_FUNCTIONS } from './sql-function-lists';

/** Functions of DuckDB that people use most, with arguments that show how; completion offers them first. */
const COMMON: readonly (readonly [string, string])[] = [
  ['abs', '(x)'],
  ['any_value', '(x)'],
  ['approx_count_distinct', '(x)'],
  ['approx_quantile', '(x, 0.5)'],
  ['arg_max', '(x, by)'],
  ['arg_min', '(x, by)'],
  ['array_agg', '(x)'],
  ['avg', '(x)'],
  ['ceil', '(x)'],
  ['coalesce', '(x, …)'],
  ['concat', '(text, …)'],
  ['concat_ws', '(separator, text, …)'],
  ['contains', '(text, part)'],
  ['count', '(x)'],
  ['count_if', '(condition)'],
  ['cume_dist', '() OVER'],
  ['current_date', ''],
  ['date_diff', "('day', from, to)"],
  ['date_part', "('year', time)"],
  ['date_trunc', "('month', time)"],
  ['dense_rank', '() OVER'],
  ['epoch_ms', '(time)'],
  ['first_value', '(x) OVER'],
  ['floor', '(x)'],
  ['generate_series', '(from, to)'],
  ['greatest', '(x, …)'],
  ['histogram', '(x)'],
  ['ifnull', '(x, other)'],
  ['json_extract', "(json, '$.path')"],
  ['json_extract_string', "(json, '$.path')"],
  ['lag', '(x) OVER'],
  ['last_value', '(x) OVER'],
  ['lead', '(x) OVER'],
  ['least', '(x, …)'],
  ['left', '(text, n)'],
  ['len', '(text or list)'],
  ['length', '(text)'],
  ['list_aggregate', "(list, 'sum')"],
  ['list_contains', '(list, x)'],
  ['list_transform', '(list, lambda x : …)'],
  ['lower', '(text)'],
  ['make_date', '(year, month, day)'],
  ['map_keys', '(map)'],
  ['max', '(x)'],
  ['median', '(x)'],
  ['min', '(x)'],
  ['mode', '(x)'],
  ['now', '()'],
  ['ntile', '(n) OVER'],
  ['nullif', '(x, y)'],
  ['percent_rank', '() OVER'],
  ['quantile_cont', '(x, 0.5)'],
  ['rank', '() OVER'],
  ['regexp_extract', '(text, pattern)'],
  ['regexp_matches', '(text, pattern)'],
  ['regexp_replace', '(text, pattern, by)'],
  ['replace', '(text, part, by)'],
  ['right', '(text, n)'],
  ['round', '(x, digits)'],
  ['row_number', '() OVER'],
  ['split', '(text, separator)'],
  ['starts_with', '(text, part)'],
  ['stddev', '(x)'],
  ['strftime', "(time, '%Y-%m')"],
  ['string_agg', "(text, ', ')"],
  ['strptime', "(text, '%Y-%m-%d')"],
  ['substring', '(text, from, length)'],
  ['sum', '(x)'],
  ['time_bucket', "(INTERVAL '1 hour', time)"],
  ['trim', '(text)'],
  ['try_cast', '(x AS type)'],
  ['unnest', '(list)'],
  ['upper', '(text)'],
  ['var_samp', '(x)'],
  ['year', '(time)'],
];

export interface SqlFunction {
  name: string;
  /** The arguments, in brackets. */
  arguments: string;
  /** Whether people use it often. */
  common: boolean;
}

/** What stands in `name(arguments)`. */
function parse(call: string): SqlFunction {
  const open = call.indexOf('(');
  return { name: call.slice(0, open), arguments: call.slice(open), common: false };
}

const SHOWN = new Map(COMMON);
const instant = new Map(DUCKDB_FUNCTIONS.map(parse).map((one) => [one.name, one]));
for (const [name, shown] of COMMON) instant.set(name, { name, arguments: shown, common: true });

/** The functions that queries may call, by engine. A name that both engines have counts as common in Spark, too. */
export const FUNCTIONS: Record<'instant' | 'spark', readonly SqlFunction[]> = {
  instant: [...instant.values()],
  spark: SPARK_FUNCTIONS.map(parse).map((one) => ({ ...one, common: SHOWN.has(one.name) })),
};
