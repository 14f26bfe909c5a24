"""The Hive Metastore behind its port, and the only importer of thrift.

Every failure leaves here as not sent, refused, or unknown; nothing above may have to read a thrift exception.
"""
