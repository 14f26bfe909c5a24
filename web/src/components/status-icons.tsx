/** States as shape and colour: red and amber only for what needs a person. */
import {
  IconAlertTriangleFilled,
  IconBan,
  IconCircleOff,
  IconClockExclamation,
  IconEyeOff,
  IconLock,
  IconCheck,
  IconCircleCheckFilled,
  IconCircleDashed,
  IconCircleMinus,
  IconCircleXFilled,
  IconEye,
  IconGitCommit,
  IconHelpHexagonFilled,
  IconHexagonLetterH,
  IconKey,
  IconLoader2,
  IconPlayerPauseFilled,
  IconSnowflake,
  IconTable,
  type Icon,
} from '@tabler/icons-react';

import type { HiveState, ImportState, Job, JobStatus, Operation, TableKind, Token, Verdict } from '../api/types';

interface Look {
  icon: Icon;
  tone: string;
  says: string;
  breathes?: boolean;
}

export function Mark({ look, children }: { look: Look; children?: React.ReactNode }) {
  const { icon: Shape, tone, says, breathes } = look;
  return (
    <span className="row" style={{ gap: 6, whiteSpace: 'nowrap', display: 'inline-flex', verticalAlign: 'middle' }}>
      <Shape size={15} className={`${tone} ${breathes ? 'breathing' : ''}`} aria-hidden style={{ flexShrink: 0 }} />
      {children ?? <span className={tone === 'dim' ? 'dim' : ''}>{says}</span>}
    </span>
  );
}

const JOB: Record<JobStatus, Look> = {
  pending: { icon: IconCircleDashed, tone: 'dim', says: 'queued' },
  running: { icon: IconLoader2, tone: 'accent', says: 'running', breathes: true },
  committing: { icon: IconGitCommit, tone: 'accent', says: 'committing', breathes: true },
  succeeded: { icon: IconCheck, tone: 'ok', says: 'succeeded' },
  failed: { icon: IconCircleXFilled, tone: 'bad', says: 'failed' },
  unknown: { icon: IconHelpHexagonFilled, tone: 'warn', says: 'outcome unknown' },
  canceled: { icon: IconCircleMinus, tone: 'dim', says: 'canceled' },
};

const NOTHING_TO_DO: Look = { icon: IconCircleMinus, tone: 'dim', says: 'nothing to do' };

/** Where a job stands; of one that has succeeded and changed nothing that there was nothing to do. */
export function JobMark({ status, outcome }: { status: JobStatus; outcome?: Job['outcome'] }) {
  return <Mark look={outcome === 'nothing to do' ? NOTHING_TO_DO : JOB[status]} />;
}

const OPERATION: Record<Operation['status'], Look> = {
  running: JOB.running,
  paused: { icon: IconPlayerPauseFilled, tone: 'warn', says: 'paused' },
  succeeded: JOB.succeeded,
  failed: JOB.failed,
  canceled: JOB.canceled,
};

export function OperationMark({ status }: { status: Operation['status'] }) {
  return <Mark look={OPERATION[status]} />;
}

const OUTCOME: Record<string, Look> = {
  ...OPERATION,
  waiting: JOB.pending,
  eligible: { icon: IconCircleCheckFilled, tone: 'ok', says: 'can be upgraded' },
  upgraded: { icon: IconSnowflake, tone: 'accent', says: 'upgraded' },
  blocked: { icon: IconBan, tone: 'warn', says: 'blocked' },
};

/** Where one of many upgrades or checks stands. */
export function OutcomeMark({ outcome, children }: { outcome: string; children?: React.ReactNode }) {
  return <Mark look={OUTCOME[outcome] ?? { icon: IconHelpHexagonFilled, tone: 'dim', says: outcome }}>{children}</Mark>;
}

const KIND: Record<TableKind, Look> = {
  keyed: { icon: IconKey, tone: 'accent', says: 'keyed' },
  plain: { icon: IconTable, tone: 'dim', says: 'plain' },
  view: { icon: IconEye, tone: 'dim', says: 'view' },
};

export function KindMark({ kind }: { kind: TableKind }) {
  return <Mark look={KIND[kind]} />;
}

const HIVE: Record<HiveState, Look> = {
  hive: { icon: IconHexagonLetterH, tone: 'dim', says: 'Not upgraded' },
  upgraded: { icon: IconSnowflake, tone: 'accent', says: 'Upgraded' },
  upgrading: { icon: IconLoader2, tone: 'accent', says: 'Upgrading', breathes: true },
  downgrading: { icon: IconLoader2, tone: 'accent', says: 'Downgrading', breathes: true },
  blocked: { icon: IconBan, tone: 'dim', says: 'Cannot be upgraded' },
};

export function HiveMark({ state }: { state: HiveState }) {
  return <Mark look={HIVE[state]} />;
}

const IMPORT: Record<ImportState, Look> = {
  found: { icon: IconCircleDashed, tone: 'dim', says: 'waiting' },
  ready: { icon: IconCircleCheckFilled, tone: 'ok', says: 'can be registered' },
  registered: { icon: IconCheck, tone: 'ok', says: 'registered' },
  refreshed: { icon: IconCheck, tone: 'ok', says: 'updated from the source' },
  there: { icon: IconCircleMinus, tone: 'dim', says: 'already there' },
  skipped: { icon: IconCircleMinus, tone: 'dim', says: 'no table' },
  conflict: { icon: IconAlertTriangleFilled, tone: 'warn', says: 'conflict' },
  ambiguous: { icon: IconHelpHexagonFilled, tone: 'warn', says: 'ambiguous' },
  failed: { icon: IconCircleXFilled, tone: 'bad', says: 'failed' },
};

export function ImportMark({ state }: { state: ImportState }) {
  return <Mark look={IMPORT[state]} />;
}

const CHECK = {
  ok: { icon: IconCircleCheckFilled, tone: 'ok', says: 'OK' },
  warn: { icon: IconAlertTriangleFilled, tone: 'warn', says: 'check this' },
  blocked: { icon: IconCircleXFilled, tone: 'bad', says: 'stops the upgrade' },
} satisfies Record<string, Look>;

export function CheckMark({ status }: { status: string }) {
  const look = status === 'ok' || status === 'warn' ? CHECK[status] : CHECK.blocked;
  return (
    <Mark look={look}>
      <span className="hidden">{look.says}</span>
    </Mark>
  );
}

const VERDICT: Record<Verdict, Look> = {
  allowed: { icon: IconCheck, tone: 'dim', says: 'allowed' },
  forbidden: { icon: IconLock, tone: 'bad', says: 'forbidden' },
  hidden: { icon: IconEyeOff, tone: 'bad', says: 'hidden' },
  unauthenticated: { icon: IconBan, tone: 'bad', says: 'not signed in' },
};

export function VerdictMark({ verdict }: { verdict: Verdict }) {
  return <Mark look={VERDICT[verdict]} />;
}

const SOON_MS = 7 * 86_400_000;
const TOKEN = {
  good: { icon: IconCheck, tone: 'ok', says: 'active' },
  soon: { icon: IconClockExclamation, tone: 'warn', says: 'expires soon' },
  expired: { icon: IconCircleOff, tone: 'dim', says: 'expired' },
  revoked: { icon: IconCircleMinus, tone: 'dim', says: 'revoked' },
} satisfies Record<string, Look>;

/** Whether it still opens anything; those that were made for a short time always end soon, and nobody has to care. */
export function tokenState(token: Token, now: number): keyof typeof TOKEN {
  if (token.revoked_at !== null) return 'revoked';
  const left = token.expires_at === null ? Infinity : Date.parse(token.expires_at) - now;
  if (left <= 0) return 'expired';
  const isShort = token.expires_at !== null && Date.parse(token.expires_at) - Date.parse(token.created_at) <= SOON_MS;
  return left < SOON_MS && !isShort ? 'soon' : 'good';
}

export function TokenMark({ token, now }: { token: Token; now: number }) {
  return <Mark look={TOKEN[tokenState(token, now)]} />;
}

export const DISABLED: Look = { icon: IconCircleOff, tone: 'dim', says: 'disabled' };
export const HEALTHY: Look = { icon: IconCheck, tone: 'ok', says: 'OK' };
export const NEVER_RAN: Look = { icon: IconCircleDashed, tone: 'dim', says: 'has not run yet' };
export const BROKEN: Look = JOB.failed;
export const WARNING: Look = { icon: IconAlertTriangleFilled, tone: 'warn', says: 'check this' };
