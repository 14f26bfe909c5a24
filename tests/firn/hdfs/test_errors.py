"""Refusals as hdfs-native 0.14.7 and Hadoop 3.4.2 worded them, and what becomes of them."""

from __future__ import annotations

import errno

import pytest

from firn.hdfs.errors import NO_DELEGATION, NameNodeBusy, translate

TRACE = r"\n\tat org.apache.hadoop.hdfs.server.namenode.FSPermissionChecker.check(FSPermissionChecker.java:661)\n\tat x"


def rpc(kind: str, words: str) -> RuntimeError:
    return RuntimeError(f'RPCError("{kind}", "{words}{TRACE}")')


@pytest.mark.parametrize(
    ("error", "kind", "number", "words"),
    [
        (
            rpc(
                "org.apache.hadoop.security.AccessControlException",
                r"Permission denied: user=lily, access=WRITE, inode=\"/d\":root:supergroup:drwxr-xr-x",
            ),
            PermissionError,
            errno.EACCES,
            'Permission denied: user=lily, access=WRITE, inode="/d":root:supergroup:drwxr-xr-x',
        ),
        (
            rpc(
                "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
                r"Cannot delete /sm. Name node is in safe mode.\nIt was turned on manually. NamenodeHostName:localhost",
            ),
            NameNodeBusy,
            errno.EAGAIN,
            "Cannot delete /sm. Name node is in safe mode. It was turned on manually. NamenodeHostName:localhost",
        ),
        (
            rpc("org.apache.hadoop.ipc.StandbyException", "Operation category READ is not supported in state standby"),
            NameNodeBusy,
            errno.EAGAIN,
            "Operation category READ is not supported in state standby",
        ),
        (
            rpc(
                "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException",
                "The NameSpace quota (directories and files) of directory /q is exceeded: quota=2 file count=3",
            ),
            OSError,
            errno.EDQUOT,
            "The NameSpace quota (directories and files) of directory /q is exceeded: quota=2 file count=3",
        ),
        (
            rpc("org.apache.hadoop.fs.ParentNotDirectoryException", "/w0 (is not a directory)"),
            NotADirectoryError,
            errno.ENOTDIR,
            "/w0 (is not a directory)",
        ),
        (
            rpc("org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", "File is not open for writing: /wx"),
            OSError,
            None,
            "LeaseExpiredException: File is not open for writing: /wx",
        ),
        (RuntimeError('DataTransferError("no data node")'), OSError, None, "DataTransferError: no data node"),
        (
            RuntimeError(
                'GSSAPIError(GssMajorCodes { raw: "0x00070000", calling_error: "none", routine_error: "GSS_S_NO_CRED", '
                'supplementary_info: "0x0000" }, 2529639066, "No credentials were supplied, or the credentials were '
                'unavailable or inaccessible: Cannot find KDC for realm \\"FIRN.TEST\\"")'
            ),
            OSError,
            None,
            'no Kerberos ticket for HDFS: Cannot find KDC for realm "FIRN.TEST"',
        ),
        (
            OSError("RPC listener disconnected"),
            OSError,
            None,
            (
                "RPC listener disconnected: the name node has closed the connection. If it demands Kerberos, "
                "core-site.xml in HADOOP_CONF_DIR must say hadoop.security.authentication=kerberos"
            ),
        ),
        (
            RuntimeError(
                'FatalRPCError("org.apache.hadoop.security.token.SecretManager$InvalidToken", "token (HDFS_DELEGATION_'
                'TOKEN token 1 for ann) is expired")'
            ),
            OSError,
            None,
            f"InvalidToken: token (HDFS_DELEGATION_TOKEN token 1 for ann) is expired; {NO_DELEGATION}",
        ),
        (RuntimeError("something else"), OSError, None, "something else"),
        (OSError("Connection refused (os error 111)"), OSError, None, "Connection refused (os error 111)"),
    ],
)
def test_refusals_keep_the_name_nodes_words(
    error: BaseException, kind: type[OSError], number: int | None, words: str
) -> None:
    refusal = translate(error)
    assert type(refusal) is kind
    assert isinstance(refusal, OSError)
    assert refusal.errno == number
    assert (refusal.strerror or str(refusal)) == words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (rpc("org.apache.hadoop.fs.InvalidPathException", "Invalid path name /d/a:b"), "Invalid path name /d/a:b"),
        (RuntimeError("XmlParseError(UnclosedRootNode)"), "UnclosedRootNode"),
        (
            RuntimeError('InvalidArgument("No NameNode hosts found")'),
            (
                "No NameNode hosts found: the name service is in no core-site.xml or hdfs-site.xml that "
                "HADOOP_CONF_DIR names"
            ),
        ),
        (
            RuntimeError('InvalidArgument("Cannot rename across different name services")'),
            "Cannot rename across different name services",
        ),
    ],
)
def test_what_no_other_try_can_mend_is_a_wrong_value(error: BaseException, words: str) -> None:
    refusal = translate(error)
    assert type(refusal) is ValueError
    assert str(refusal) == words


def test_missing_and_existing_files_lose_the_stack_trace() -> None:
    missing = translate(FileNotFoundError("File does not exist: /nope\n\tat org.apache.hadoop.X"))
    assert isinstance(missing, FileNotFoundError)
    assert str(missing) == "File does not exist: /nope"
    assert isinstance(translate(FileExistsError("/x already exists\n\tat y")), FileExistsError)
    assert isinstance(translate(FileNotFoundError("Path is not a file: /d\n\tat y")), IsADirectoryError)


def test_a_panic_of_the_client_is_an_error_like_others_and_an_interrupt_stays_one() -> None:
    panic = type("PanicException", (BaseException,), {})("Cannot read past end of the file")
    assert str(translate(panic)) == "[Errno None] the HDFS client failed: Cannot read past end of the file"
    assert translate(KeyboardInterrupt()) is None
    assert translate(TypeError("x")) is None
