import type { AuditEntry } from '@countersign/merkle';
import type { StreamEntry } from './stream-entry.ts';

/** OCSF classes, with the category that each is in. */
const PROCESS = {
  class_uid: 1007,
  class_name: 'Process Activity',
  category_uid: 1,
  category_name: 'System Activity',
} as const;
const FILE = {
  class_uid: 1001,
  class_name: 'File System Activity',
  category_uid: 1,
  category_name: 'System Activity',
} as const;
const API = {
  class_uid: 6003,
  class_name: 'API Activity',
  category_uid: 6,
  category_name: 'Application Activity',
} as const;

const FILE_ACTIVITY: Readonly<Record<string, number>> = { write: 3, edit: 3, multi_edit: 3, read: 2, delete: 4 };
const PROCESS_ACTIVITY: Readonly<Record<string, number>> = {
  'exec.started': 1,
  'exec.finished': 2,
  'exec.interrupted': 2,
};
const API_ACTIVITY: Readonly<Record<string, number>> = {
  'grant.created': 1,
  'member.joined': 1,
  'key.added': 1,
  'audit.read': 2,
  'export.run': 2,
  'admin.changed': 3,
  'policy.changed': 3,
  'session.changed': 3,
  'grant.revoked': 4,
  'key.retired': 4,
  'erasure.done': 4,
};
const OTHER_ACTIVITY = 99;
const OCSF_VERSION = '1.5.0';

const textOf = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** 1 allowed by rule, 8 approved by a person, 2 blocked by rule, 25 rejected by a person, 14 delayed. */
function dispositionOf({ type, decision }: AuditEntry): number | undefined {
  if (type === 'approval.requested') return 14;
  if (type !== 'decision') return undefined;
  const byPerson = decision?.decided_by === 'human';
  if (decision?.effect === 'allow') return byPerson ? 8 : 1;
  return byPerson ? 25 : 2;
}

function classOf(tool: string | undefined, type: string) {
  if (tool === undefined) return { ...API, activity_id: API_ACTIVITY[type] ?? OTHER_ACTIVITY };
  if (tool === 'bash') return { ...PROCESS, activity_id: PROCESS_ACTIVITY[type] ?? OTHER_ACTIVITY };
  const activity = FILE_ACTIVITY[tool];
  return activity === undefined ? { ...API, activity_id: OTHER_ACTIVITY } : { ...FILE, activity_id: activity };
}

/** What each class must hold besides. */
function objectOf(classUid: number, entry: AuditEntry) {
  const resource = textOf(entry.tool?.resource) ?? textOf(entry.tool?.action) ?? '';
  if (classUid === PROCESS.class_uid) return { process: { name: resource } };
  if (classUid === FILE.class_uid) return { file: { name: resource, type_id: 0 } };
  const operation = textOf(entry.tool?.action) ?? entry.type;
  return { api: { operation }, src_endpoint: { name: entry.host ?? 'control-plane' } };
}

/** Tool of the entry's call, when the entry itself says it; entries without one are API Activity. */
const toolOf = ({ tool }: AuditEntry): string | undefined => textOf(tool?.name);

/** An entry as one OCSF event. `record_integrity` names its place in the tree; the whole entry is under `unmapped`. */
export function ocsfOf({ entry, leafHash }: StreamEntry): object {
  const kind = classOf(toolOf(entry), entry.type);
  const disposition = dispositionOf(entry);
  const denied = disposition === 2 || disposition === 25;
  const approver = textOf(entry.approver?.subject);
  return {
    ...kind,
    type_uid: kind.class_uid * 100 + kind.activity_id,
    time: entry.recorded_ms,
    severity_id: denied ? 3 : 1,
    status_id: denied ? 2 : 1,
    ...(disposition === undefined ? {} : { disposition_id: disposition, action_id: denied ? 2 : 1 }),
    message: textOf(entry.decision?.reason) ?? textOf(entry.detail?.reason) ?? entry.type,
    metadata: {
      version: OCSF_VERSION,
      product: { name: 'Countersign', vendor_name: 'Countersign' },
      log_name: entry.tenant,
      uid: entry.id,
      sequence: entry.index,
      event_code: entry.type,
      original_time: String(entry.emitted_ms),
      ...(entry.call === undefined ? {} : { correlation_uid: entry.call }),
      ...(entry.trace === undefined ? {} : { trace_uid: entry.trace }),
    },
    actor: {
      user: { name: approver ?? textOf(entry.agent?.on_behalf_of) ?? textOf(entry.agent?.id) ?? 'control-plane' },
      ...(entry.session === undefined ? {} : { session: { uid: entry.session } }),
      ...(textOf(entry.agent?.id) === undefined ? {} : { app_name: textOf(entry.agent?.id) }),
    },
    device: { hostname: entry.host ?? 'control-plane', type_id: 0 },
    ...objectOf(kind.class_uid, entry),
    record_integrity: { log: entry.tenant, index: entry.index, leaf_hash: leafHash, algorithm: 'RFC 6962 SHA-256' },
    unmapped: { entry },
  };
}
