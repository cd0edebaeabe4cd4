import { z } from 'zod';
import type { AuditLog } from '../record/audit-log.ts';
import { recordAct } from './admin-log.ts';
import { groupsSchema, nameSchema, ROLES, type Role } from './principal.ts';
import { RecordView, type Versioned } from './record-view.ts';

const PERSON = 'person';

const personSchema = z.object({
  subject: nameSchema,
  roles: z.array(z.enum(ROLES)),
  groups: groupsSchema,
  /** `oidc` people get roles and groups anew from the claims of each sign-in. */
  source: z.enum(['local', 'oidc']),
  active: z.boolean(),
});

export type Person = z.infer<typeof personSchema>;

/** People who may sign in, with roles and groups, kept in the record. */
export class Directory {
  readonly #audit: AuditLog;
  readonly #people: RecordView<Person>;
  readonly #now: () => number;

  constructor(audit: AuditLog, now: () => number) {
    this.#audit = audit;
    this.#now = now;
    this.#people = new RecordView({ audit, kind: PERSON, schema: personSchema, now });
  }

  /** The person, also an inactive one. Rejects when the record cannot be read. */
  async find(subject: string): Promise<Person | undefined> {
    return (await this.#people.find(subject))?.value;
  }

  /** Another name that differs from `subject` in case only: most directories hold both for one person. */
  async sameButForCase(subject: string): Promise<string | undefined> {
    const folded = subject.toLowerCase();
    return [...(await this.#people.all()).keys()].find((name) => name !== subject && name.toLowerCase() === folded);
  }

  async list(): Promise<Person[]> {
    return [...(await this.#people.all()).values()].map(({ value }) => value);
  }

  /** Records roles, groups and state of a person. Nothing is written when they are the same. */
  async put(person: Person, by: string): Promise<void> {
    this.#people.expire();
    const known = await this.#people.find(person.subject);
    if (known && same(known, person)) return;
    const { subject, roles, groups, source, active } = person;
    await recordAct(
      this.#audit,
      { what: known ? 'person.changed' : 'person.added', by, detail: { subject, roles, groups, source, active } },
      this.#now(),
      [{ kind: PERSON, key: subject, expectedVersion: known?.version ?? 0n, value: person }],
    );
    this.#people.expire();
  }
}

const same = ({ value }: Versioned<Person>, other: Person): boolean => {
  const text = ({ roles, groups, source, active }: Person) =>
    JSON.stringify([[...roles].sort(), [...groups].sort(), source, active]);
  return text(value) === text(other);
};

/** Roles that both name. */
export const commonRoles = (left: readonly Role[], right: readonly Role[]): Role[] =>
  left.filter((role) => right.includes(role));
