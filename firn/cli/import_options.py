"""The options of `firn catalog import`."""

from __future__ import annotations

from typing import Annotated

import typer

_FROM = "Source"
_WHICH = "Selection"

Name = Annotated[str, typer.Argument(metavar="CATALOG", help="The catalog to import into.")]

FromWarehouse = Annotated[
    str | None, typer.Option(help="Scan file:///…, s3://… or hdfs://… for tables.", rich_help_panel=_FROM)
]
FromRest = Annotated[str | None, typer.Option(help="Another Iceberg REST catalog: http(s)://…", rich_help_panel=_FROM)]
FromHive = Annotated[
    str | None, typer.Option(help="Iceberg tables of a Hive Metastore: thrift://HOST:PORT", rich_help_panel=_FROM)
]
Warehouse = Annotated[
    str | None, typer.Option(help="Warehouse parameter of the other REST catalog.", rich_help_panel=_FROM)
]
SourceToken = Annotated[
    str | None,
    typer.Option(envvar="FIRN_SOURCE_TOKEN", help="Token for the other REST catalog.", rich_help_panel=_FROM),
]
SourceCredential = Annotated[
    str | None,
    typer.Option(
        envvar="FIRN_SOURCE_CREDENTIAL",
        help="CLIENT_ID:CLIENT_SECRET for the other REST catalog.",
        rich_help_panel=_FROM,
    ),
]
TokenServer = Annotated[
    str | None,
    typer.Option(help="Token endpoint of the other REST catalog, if it is elsewhere.", rich_help_panel=_FROM),
]
Scope = Annotated[str | None, typer.Option(help="Scope of the token to request.", rich_help_panel=_FROM)]

Into = Annotated[
    str | None, typer.Option(help="Target namespace: the import puts all namespaces below it.", rich_help_panel=_WHICH)
]
NamespaceDepth = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Number of directories above a table's that form its namespace (default: all).",
        rich_help_panel=_WHICH,
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(help="Include only these names, such as 'sales.*'; may be repeated.", rich_help_panel=_WHICH),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(help="Exclude these names, such as 'sales.tmp_*'; may be repeated.", rich_help_panel=_WHICH),
]

AllowSource = Annotated[
    bool,
    typer.Option("--allow-source", help="For administrators: allow tables of the catalog in the scanned location."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(help="For administrators: allow tables of the catalog in this location; may be repeated."),
]
Resume = Annotated[str | None, typer.Option(metavar="OPERATION", help="Resume this import now, and watch it.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace tables of the same name; their files stay.")]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Update registered tables to the current metadata of the source.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return at once; the server continues the import.")]
