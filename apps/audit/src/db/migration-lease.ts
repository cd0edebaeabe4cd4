/** Who writes the log. The lease decides who tries; what keeps two writers apart is the fence of `audit.head`. */
const TABLES = `
create table audit.lease (
  singleton boolean primary key default true check (singleton),
  term bigint not null, holder text not null, pid integer, backend_start timestamptz, expires_at timestamptz not null
);
insert into audit.lease values (true, 0, '', null, null, '-infinity');
alter table audit.lease owner to countersign_owner;
grant select, update on audit.lease to countersign_writer;
`;

/** Statements of the migration, in order. */
export const LEASE_MIGRATION: readonly string[] = [TABLES];
