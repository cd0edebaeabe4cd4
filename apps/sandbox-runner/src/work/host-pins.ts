import { closeSync, fstatSync, lstatSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { err, ok, type Result } from '@countersign/kernel';
import type { WorkOrder } from '@countersign/protocol';
import { z } from 'zod';

const MAX_BYTES = 262_144;
const MAX_PEOPLE = 20;
/** Group and others may not write. */
const FOREIGN_WRITE = 0o022;

const pinSchema = z.strictObject({
  /** Classes of orders; what is not named matches every order. */
  tools: z.array(z.string().min(1)).min(1).optional(),
  profiles: z
    .array(z.enum(['read-only', 'workspace-write', 'networked', 'full-access']))
    .min(1)
    .optional(),
  /** Folders: an order whose project or files lie in one of them. */
  paths: z.array(z.string().startsWith('/')).min(1).optional(),
  /** Different people whose passkeys such an order needs. */
  people: z.int().min(1).max(MAX_PEOPLE),
});
const pinsSchema = z.strictObject({ version: z.literal(1), pins: z.array(pinSchema).max(1_000) });

/** Which orders need passkeys on this host. No message changes it. */
export type HostPins = z.infer<typeof pinsSchema>;

function ownerProblem(file: string, owners: readonly number[]): string | undefined {
  for (let at = file; ; at = path.dirname(at)) {
    const { uid, mode } = lstatSync(at);
    const isShared = (mode & FOREIGN_WRITE) !== 0;
    if (!owners.includes(uid)) return `\`${at}\` does not belong to root`;
    if (isShared) return `\`${at}\` can be written by others`;
    if (at === path.dirname(at)) return undefined;
  }
}

/**
 * Reads the pins of a host; undefined when it has none. SECURITY: the file and every folder above it must belong to root and
 * be writable by nobody else; whatever is there and not as expected is an error, and the host is not ready then.
 * @param owners accounts that may own them; more than root only in tests.
 */
export function readHostPins(file: string, owners: readonly number[] = [0]): Result<HostPins | undefined, string> {
  let descriptor: number;
  try {
    descriptor = openSync(file, 'r');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? ok(undefined) : err(`pins \`${file}\` cannot be read`);
  }
  try {
    const facts = fstatSync(descriptor);
    if (!facts.isFile() || lstatSync(file).isSymbolicLink()) return err(`pins \`${file}\` is no plain file`);
    if (facts.size > MAX_BYTES) return err(`pins \`${file}\` is over ${MAX_BYTES} bytes`);
    const problem = ownerProblem(file, owners);
    if (problem !== undefined) return err(`pins are refused: ${problem}`);
    const parsed = pinsSchema.safeParse(JSON.parse(readFileSync(descriptor, 'utf8')));
    return parsed.success ? ok(parsed.data) : err(`pins \`${file}\` do not have the expected form`);
  } catch {
    return err(`pins \`${file}\` are malformed`);
  } finally {
    closeSync(descriptor);
  }
}

const isBelow = (folder: string, place: string): boolean => {
  const base = path.resolve(folder);
  const at = path.resolve(place);
  return at === base || at.startsWith(base === '/' ? '/' : `${base}/`);
};

/** Places that the arguments name, as the host would resolve them. */
const namedPlaces = (args: object, project: string): string[] =>
  Object.entries(args).flatMap(([name, value]) =>
    ['path', 'cwd', 'to', 'from'].includes(name) && typeof value === 'string' ? [path.resolve(project, value)] : [],
  );

/** How many different people's passkeys an order needs on this host. */
export function peopleNeeded(pins: HostPins | undefined, order: WorkOrder, args: object): number {
  const places = [
    order.project,
    ...namedPlaces(args, order.project),
    ...order.preconditions.flatMap(({ path: file, realPath }) => [file, realPath]),
  ].filter((place) => place !== '');
  const needed = (pins?.pins ?? [])
    .filter(({ tools }) => tools === undefined || tools.includes(order.tool))
    .filter(({ profiles }) => profiles === undefined || (profiles as string[]).includes(order.profile))
    .filter(
      ({ paths }) => paths === undefined || paths.some((folder) => places.some((place) => isBelow(folder, place))),
    )
    .map(({ people }) => people);
  return Math.max(0, ...needed);
}
