"""Files of keys, as spreadsheets write them and as attackers do."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid
from catalog.keyed.key_file import MAX_CHARACTERS, parse_keys
from catalog.keyed.spec import KeyScope, KeySpec

HEADING = "table,primary_key,sequence_field,key_scope\n"


@pytest.mark.parametrize(
    "text",
    [
        HEADING + 'shop.Items,"order_id, Line",updated_at,partition\n',
        "\ufeff" + HEADING + '\r\nshop.items,"order_id,line",updated_at,partition\r\n',
        "table;primary_key;sequence_field;key_scope\nshop.items;order_id,line;updated_at;partition\n;;;\n",
        "Table\tprimary_key\tsequence_field\tkey_scope\nshop.items\torder_id,line\tupdated_at\tpartition",
    ],
)
def test_spreadsheets_write_keys_in_several_ways(text: str) -> None:
    (key,) = parse_keys(text).items()
    spec = KeySpec(primary_key=("order_id", "line"), sequence_field="updated_at", scope=KeyScope.PARTITION)
    assert (key[0], key[1].spec) == ("shop.items", spec)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not with a heading"),
        ("shop.items,id\n", "not with a heading"),
        ("table,primary_key,primary_key\na.b,id,id\n", "not with a heading"),
        ("table,primary_key,password\na.b,id,x\n", "not with a heading"),
        (HEADING + "items,id\n", "line 2: 'items' is not DATABASE.TABLE"),
        (HEADING + "lake.shop.items,id\n", "is not DATABASE.TABLE"),
        (HEADING + "shop.items,\n", "has no primary_key"),
        (HEADING + "shop.items,id,,everywhere\n", "key_scope is 'everywhere'"),
        (HEADING + "shop.items,id,at,global,more\n", "put several key columns in quotes"),
        (HEADING + "shop.items,id\nSHOP.items,id\n", "line 3: shop.items has a key in line 2 already"),
        ("table,primary_key\na.b,i\0d\n", "not text in UTF-8"),
        ("table,primary_key\na.b,caf\ufffd\n", "not text in UTF-8"),
        (HEADING + "x" * 200_000 + "\n", "is not DATABASE.TABLE"),
        ("x" * (MAX_CHARACTERS + 1), "characters"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_keys(text)
    assert message in refused.value.message
    assert len(refused.value.message) < 2_000


def test_only_the_first_of_many_problems_are_named() -> None:
    with pytest.raises(Invalid, match=r"^1,000 lines .*; and 990 more$"):
        parse_keys("table,primary_key\n" + "=cmd(),id\n" * 1_000)
