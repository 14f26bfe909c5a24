"""The composition root of what the server sends to others: notifications and lineage events."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version

from catalog.pipelines.openlineage import EventBuilder
from catalog.ports.lineage_events import LineageSink
from catalog.ports.store import Database
from server.component_settings import make_lease_times
from server.identity.sealing import Sealer
from server.lineage_settings import LineageSettings
from server.openlineage.file_sink import FileSink
from server.openlineage.http_sink import HttpSink
from server.outgoing.couriers import Couriers
from server.outgoing.mail import MailServer
from server.service.notifications.event_delivery import EventDelivery
from server.service.notifications.event_messages import EventMessages
from server.service.notifications.outbox import Outbox
from server.service.notifications.problem_sources import ProblemSources
from server.service.notifications.rules import NotificationRules
from server.service.pipelines.lineage_events import LineageEvents
from server.service.pipelines.measurements import PipelineMeasurements
from server.settings import Settings


def build_outbox(settings: Settings, database: Database, measurements: PipelineMeasurements) -> Outbox:
    """Build what sends notifications: by HTTP, and by mail where a server for it is set."""
    configured, mail = settings.notifications, settings.mail
    server = None
    if mail.host is not None and mail.sender is not None:
        password = None if mail.password is None else mail.password.get_secret_value()
        server = MailServer(
            host=mail.host,
            port=mail.port,
            sender=mail.sender,
            security=mail.security,
            username=mail.username,
            password=password,
        )
    courier = Couriers(source=configured.console or settings.own_address, mail=server)
    rules = NotificationRules(database, courier, build_sealer(settings), configured.console)
    sources = ProblemSources(database, measurements, make_lease_times(settings.lease).lasts)
    return Outbox(rules, sources, timedelta(days=configured.days))


def build_event_delivery(settings: Settings, outbox: Outbox) -> EventDelivery:
    """Build what sends table events: by the rules and the couriers of notifications."""
    days = timedelta(days=settings.notifications.days)
    return EventDelivery(outbox.rules, EventMessages(outbox.rules.database), days)


def build_lineage_events(settings: LineageSettings, database: Database) -> LineageEvents | None:
    """Build what sends lineage events; None where they go nowhere."""
    sink: LineageSink
    if settings.url is not None:
        sink = HttpSink(settings.url, None if settings.token is None else settings.token.get_secret_value())
    elif settings.file is not None:
        sink = FileSink(settings.file)
    else:
        return None
    return LineageEvents(database, sink, EventBuilder(namespace=settings.namespace, version=version("firn")))


def build_sealer(settings: Settings) -> Sealer:
    """Build what seals secrets in the database with the server's key."""
    secret = settings.secret_key
    return Sealer(None if secret is None else secret.get_secret_value(), settings.data_dir.absolute())
