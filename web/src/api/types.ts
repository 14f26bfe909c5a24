/** The API's shapes under the names that pages use. */
import type { components } from './generated';

type Schemas = components['schemas'];

export type Catalog = Schemas['CatalogOut'];
export type Column = Schemas['server__api__tableviews__ColumnOut'];
export type CommitEvent = Schemas['EventOut'];
export type Dropped = Schemas['DroppedOut'];
export type Change = Schemas['ChangeOut'];
export type Comparison = Schemas['ComparisonOut'];
export type Ref = Schemas['RefOut'];
export type RefIn = Schemas['RefIn'];
export type Rollback = Schemas['RollbackOut'];
export type RollbackIn = Schemas['RollbackIn'];
export type Topic = Schemas['Topic'];
export type View = Schemas['ViewOut'];
export type ViewVersion = Schemas['ViewVersionOut'];
export type Health = Schemas['HealthOut'];
export type HiveRow = Schemas['HiveTableOut'];
export type HiveReport = Schemas['ReportOut'];
export type HiveState = Schemas['HiveTableState'];
export type Check = Schemas['CheckOut'];
export type ImportEntry = Schemas['EntryOut'];
export type ImportState = Schemas['EntryState'];
export type ImportIn = Schemas['ImportIn'];
export type Job = Schemas['JobOut'];
export type JobKind = Schemas['JobKind'];
export type JobStatus = Schemas['JobStatus'];
export type Operation = Schemas['OperationOut'];
export type Optimizer = Schemas['OptimizerOut'];
export type Partition = Schemas['PartitionOut'];
export type Planned = Schemas['PlannedOut'];
export type Setting = Schemas['SettingOut'];
export type Snapshot = Schemas['SnapshotOut'];
export type Store = Schemas['StoreOut'];
export type Table = Schemas['TableOut'];
export type TableIn = Schemas['TableIn'];
export type TableKind = Schemas['TableKind'];
export type TableRow = Schemas['TableRow'];
export type BackgroundTask = Schemas['TaskOut'];

export const ACTIVE: JobStatus[] = ['pending', 'running', 'committing', 'unknown'];
