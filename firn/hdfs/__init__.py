"""HDFS without Java: the Rust client `hdfs-native`, for server, optimizers and scans alike (decision 90).

Where name nodes are and as whom to call them comes from the environment, as for every program of Hadoop:
`HADOOP_CONF_DIR` (or `HADOOP_HOME`) names the cluster's own files, `HADOOP_USER_NAME` the user of a cluster without
Kerberos. The package needs the extra `hdfs`, and imports it on the first call.
"""
