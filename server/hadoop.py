"""What the server tells the client of HDFS: the cluster's files and the user, in the environment of its process.

The client reads them there and nowhere else, and processes that the server starts inherit them.
"""

from __future__ import annotations

import os
from pathlib import Path

from firn.hdfs.configuration import CONF_DIR, FILES, USER, read_configuration

_AUTHENTICATION = "hadoop.security.authentication"


def check_conf_dir(directory: Path) -> Path:
    """The directory, if it holds a cluster's configuration; ValueError says what is missing or broken.

    The client itself ignores a directory that does not exist, and would ask the wrong name node.
    """
    if not any((directory / name).is_file() for name in FILES):
        raise ValueError(f"{directory} has neither {' nor '.join(FILES)}; name the cluster's /etc/hadoop/conf")
    read_configuration(directory)
    return directory.absolute()


def check_kerberos(directory: Path) -> None:
    """ValueError if the cluster's configuration does not say that it uses Kerberos: the client would not try it."""
    if (name := read_configuration(directory).get(_AUTHENTICATION, "simple").lower()) != "kerberos":
        raise ValueError(
            f"{directory} says {_AUTHENTICATION}={name}; set it to kerberos in core-site.xml, "
            "or remove hadoop.principal and hadoop.keytab"
        )


def apply_settings(conf_dir: Path | None, user: str | None) -> None:
    """Put the settings of `[hadoop]` into the environment; those that are not set leave it as it is."""
    if conf_dir is not None:
        os.environ[CONF_DIR] = str(conf_dir)
    if user is not None:
        os.environ[USER] = user
