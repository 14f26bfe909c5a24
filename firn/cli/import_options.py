"""What `firn catalog import` can be told."""

from __future__ import annotations

from typing import Annotated

import typer

_FROM = "Where from"
_WHICH = "Which"

Name = Annotated[str, typer.Argument(metavar="CATALOG", help="The catalog that takes the tables.")]

FromWarehouse = Annotated[
    str | None, typer.Option(help="Scan file:///…, s3://… or hdfs://… for tables.", rich_help_panel=_FROM)
]
FromRest = Annotated[str | None, typer.Option(help="Another Iceberg REST catalog: http(s)://…", rich_help_panel=_FROM)]
FromHive = Annotated[
    str | None, typer.Option(help="Iceberg tables of a Hive Metastore: thrift://HOST:PORT", rich_help_panel=_FROM)
]
Warehouse = Annotated[
    str | None, typer.Option(help="The other REST catalog's warehouse parameter.", rich_help_panel=_FROM)
]
SourceToken = Annotated[
    str | None,
    typer.Option(envvar="FIRN_SOURCE_TOKEN", help="Token for the other REST catalog.", rich_help_panel=_FROM),
]
SourceCredential = Annotated[
    str | None,
    typer.Option(envvar="FIRN_SOURCE_CREDENTIAL", help="CLIENT_ID:CLIENT_SECRET for it.", rich_help_panel=_FROM),
]
TokenServer = Annotated[
    str | None, typer.Option(help="Where it takes credentials, if elsewhere.", rich_help_panel=_FROM)
]
Scope = Annotated[str | None, typer.Option(help="Scope of the token to ask for.", rich_help_panel=_FROM)]

Into = Annotated[str | None, typer.Option(help="Target namespace: everything goes below it.", rich_help_panel=_WHICH)]
NamespaceDepth = Annotated[
    int | None,
    typer.Option(min=0, help="Directories above a table's that are its namespace (all).", rich_help_panel=_WHICH),
]
Include = Annotated[
    list[str] | None,
    typer.Option(help="Include only these names, such as 'sales.*'; may be repeated.", rich_help_panel=_WHICH),
]
Exclude = Annotated[
    list[str] | None, typer.Option(help="Exclude names like this; may be repeated.", rich_help_panel=_WHICH)
]

AllowSource = Annotated[
    bool, typer.Option("--allow-source", help="For administrators: let the catalog's tables lie where this scans.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(help="For administrators: let the catalog's tables lie here, too; may be repeated."),
]
Resume = Annotated[str | None, typer.Option(metavar="OPERATION", help="Go on with this import now, and watch it.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace other tables that have the name; their files stay.")
]
Refresh = Annotated[bool, typer.Option("--refresh", help="Let tables that are here follow a source that has moved on.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return at once; the import goes on in the server.")]
