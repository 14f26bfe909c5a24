"""Functions of Spark SQL by what they mean for a plan.

sqlglot knows most functions by classes of its own. Lists of names are for the others, which it parses as `Anonymous`.
`tests/integration/pipelines` compares the lists with those of Spark.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

UNREPEATABLE: Final = frozenset(
    """
    aes_encrypt curdate current_catalog current_database current_date current_schema current_time
    current_timestamp current_timezone current_user input_file_block_length input_file_block_start input_file_name
    java_method localtimestamp monotonically_increasing_id now rand randn random randstr reflect session_user
    shuffle spark_partition_id try_reflect uniform user uuid version
    """.split()  # noqa: SIM905 -- a list would take a line for each
)
"""Functions whose value depends on the run, the user, the session or the files, not only on the arguments."""

_UNREPEATABLE_CLASSES: Final = (
    exp.CurrentCatalog,
    exp.CurrentDatabase,
    exp.CurrentDate,
    exp.CurrentDatetime,
    exp.CurrentSchema,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.CurrentTimezone,
    exp.CurrentUser,
    exp.Localtime,
    exp.Localtimestamp,
    exp.Rand,
    exp.Randn,
    exp.Randstr,
    exp.SessionUser,
    exp.Shuffle,
    exp.Uniform,
    exp.Uuid,
)

AGGREGATES: Final = frozenset(
    """
    any bitmap_and_agg count_min_sketch every histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float mean
    schema_of_variant_agg some std theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    """.split()  # noqa: SIM905 -- a list would take a line for each
)
"""Aggregates that sqlglot does not know as aggregates."""

MANY_ROWS: Final = frozenset(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer session_window stack
    variant_explode variant_explode_outer window window_time
    """.split()  # noqa: SIM905 -- a list would take a line for each
)
"""Functions that give a row several values, or a value that depends on other rows. They never select rows."""

_MANY_ROWS_CLASSES: Final = (exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline)

SCALARS: Final = frozenset(
    """
    aes_decrypt array_repeat array_union arrays_overlap assert_true bigint bin binary bround btrim cardinality
    conv crc32 date_part datepart decimal e expm1 find_in_set forall format_number from_avro from_csv
    from_protobuf from_xml get hash hll_sketch_estimate hll_union hypot is_valid_utf8 is_variant_null isnotnull
    isnull json_array_length kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
    kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
    kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
    kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
    kll_sketch_to_string_float log1p luhn_check make_date make_dt_interval make_time make_timestamp_ltz
    make_timestamp_ntz make_valid_utf8 make_ym_interval map_concat map_entries map_filter map_values map_zip_with
    mask nullifzero octet_length pmod positive printf quote raise_error regexp schema_of_avro schema_of_csv
    schema_of_json schema_of_variant schema_of_xml sentences shiftrightunsigned smallint st_asbinary
    st_geogfromwkb st_geomfromwkb st_setsrid st_srid theta_difference theta_intersection theta_sketch_estimate
    theta_union timestamp_micros timestamp_millis timestamp_seconds tinyint to_avro to_csv to_protobuf to_time
    to_timestamp_ltz to_timestamp_ntz to_varchar to_variant_object to_xml transform_keys transform_values
    try_aes_decrypt try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod
    try_parse_json try_parse_url try_to_binary try_to_date try_to_number try_to_time try_to_timestamp
    try_url_decode try_validate_utf8 try_variant_get url_decode url_encode validate_utf8 variant_get weekday xpath
    xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64
    zeroifnull zip_with
    """.split()  # noqa: SIM905 -- a list would take a line for each
)
"""Functions with one value for equal arguments, as far as sqlglot has no class for them."""

_MOVING_TIMES: Final = frozenset({"now", "today", "tomorrow", "yesterday"})


def function_name(node: exp.Expr) -> str:
    """The name of a function in lower case; empty for what is no function."""
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return str(node.name).lower()
    if isinstance(node, exp.Func):
        return str(node.sql_name()).lower()
    return ""


def is_unrepeatable(node: exp.Expr) -> bool:
    """Whether two runs over the same rows may get other values of it."""
    if isinstance(node, _UNREPEATABLE_CLASSES):
        return True
    if isinstance(node, exp.Cast) and node.is_type("date", "timestamp", "timestamptz", "timestampntz"):
        literal = node.this
        return isinstance(literal, exp.Literal) and literal.is_string and literal.name.strip().lower() in _MOVING_TIMES
    return isinstance(node, exp.Anonymous) and function_name(node) in UNREPEATABLE


def is_unknown(node: exp.Expr, deterministic: frozenset[str]) -> bool:
    """Whether it is a function that is neither Spark's nor in `deterministic`, the names that the user vouches for."""
    if not isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return False
    name = function_name(node)
    return not any(name in names for names in (UNREPEATABLE, AGGREGATES, MANY_ROWS, SCALARS, deterministic))


def is_aggregate(node: exp.Expr) -> bool:
    """Whether it is an aggregate function; one with OVER counts, too."""
    if isinstance(node, exp.AggFunc):
        return True
    if isinstance(node, exp.Any):
        return not isinstance(node.this, (exp.Query, exp.Subquery))
    return isinstance(node, exp.Anonymous) and function_name(node) in AGGREGATES


def gives_many_rows(node: exp.Expr) -> bool:
    """Whether its values are not those of one row."""
    return isinstance(node, _MANY_ROWS_CLASSES) or function_name(node) in MANY_ROWS
