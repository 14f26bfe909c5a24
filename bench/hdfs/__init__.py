"""Tables on HDFS, beside the same tables on a local disk: `python -m bench.hdfs`."""
