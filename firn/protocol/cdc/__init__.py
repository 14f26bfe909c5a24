"""Readers of change data capture (CDC): envelopes of Debezium, Canal and Maxwell as changes of tables. Pure Python.

    envelope.py   the result of reading one record
    formats.py    the formats by name, and the reader of each
    rows.py       an envelope as rows of one keyed table
    values.py     one value as a value of a column's type

Records are hostile: a reader gives an envelope or raises BadRecord, whatever bytes it gets.
"""
