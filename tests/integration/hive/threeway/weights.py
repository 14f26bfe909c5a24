"""How often histories take each operation, beside the others."""

from __future__ import annotations

from collections.abc import Mapping

OF_ALL: Mapping[str, int] = {
    "insert_into": 5,
    "overwrite_a_partition": 4,
    "overwrite_by_values": 2,
    "copy_a_file": 5,
    "write_twice_in_a_second": 1,
    "load_data": 2,
    "remove_a_file": 3,
    "replace_a_file": 2,
    "leave_unfinished_work": 1,
    "open_in_place": 2,
    "close_in_place": 2,
    "truncate": 2,
    "add_column": 1,
}
OF_PARTITIONS: Mapping[str, int] = {
    "add_partition": 3,
    "drop_partition": 3,
    "drop_and_add_partition": 1,
    "rename_partition": 2,
    "move_a_file": 4,
    "set_location": 2,
    "repair": 2,
    "exchange_partition": 2,
}
OPERATIONS_OF_FIRN: Mapping[str, int] = {
    "change_by_rest": 8,
    "upsert_by_client": 2,
    "delete_by_client": 2,
    "merge": 4,
    "upkeep": 4,
    "sync": 10,
    "sync_everything": 4,
    "publish": 4,
    "publish_what_was_merged": 3,
    "time_passes": 2,
    "late_file": 2,
    "late_overwrite": 1,
    "settle": 1,
    "downgrade_and_upgrade_again": 1,
}
