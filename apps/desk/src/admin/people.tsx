import { Alert, Button, Checkbox, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { fetchPeople, type Person, ROLES, savePerson } from '../api/admin.ts';
import { useMe } from '../app/me-context.tsx';
import { Loaded } from '../app/page-state.tsx';
import { SheetBox } from '../app/sheet-box.tsx';
import { plainVisible } from '../text/visible-text.ts';
import { Choices } from './choices.tsx';

type Draft = {
  readonly subject: string;
  readonly roles: readonly string[];
  readonly groups: string;
  readonly active: boolean;
};
const NOBODY: Draft = { subject: '', roles: ['approver'], groups: '', active: true };

const groupsOf = (text: string): string[] =>
  text
    .split(',')
    .map((group) => group.trim())
    .filter(Boolean);

function PersonForm({ draft, onChange }: { draft: Draft; onChange: (draft: Draft) => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () =>
      savePerson(
        { ...draft, subject: draft.subject.trim(), roles: [...draft.roles], groups: groupsOf(draft.groups) },
        me.csrf,
      ),
    onSuccess: () => {
      onChange(NOBODY);
      return client.invalidateQueries({ queryKey: ['people'] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <form className="stack" onSubmit={submit}>
      <h3>{t('admin.add')}</h3>
      <div className="field-grid">
        <TextInput
          size="xs"
          label={t('admin.person')}
          value={draft.subject}
          maxLength={128}
          onChange={(event) => onChange({ ...draft, subject: event.currentTarget.value })}
        />
        <TextInput
          size="xs"
          label={`${t('admin.groups')} (${t('admin.groupsHint')})`}
          value={draft.groups}
          maxLength={4_000}
          onChange={(event) => onChange({ ...draft, groups: event.currentTarget.value })}
        />
      </div>
      <Choices
        title={t('admin.roles')}
        all={ROLES}
        chosen={draft.roles}
        onChange={(roles) => onChange({ ...draft, roles })}
      />
      <Checkbox
        size="xs"
        label={t('admin.active')}
        checked={draft.active}
        onChange={(event) => onChange({ ...draft, active: event.currentTarget.checked })}
      />
      {save.isError && (
        <Alert color="red" role="alert" p="xs" title={t('decide.failed')}>
          {save.error.message}
        </Alert>
      )}
      <div className="row">
        <Button
          type="submit"
          size="xs"
          loading={save.isPending}
          disabled={draft.subject.trim() === '' || draft.roles.length === 0}
        >
          {t('admin.save')}
        </Button>
      </div>
    </form>
  );
}

function PeopleTable({ people, onEdit }: { people: readonly Person[]; onEdit?: (person: Person) => void }) {
  const { t } = useTranslation();
  if (people.length === 0) return <p className="dim">{t('admin.noPeople')}</p>;
  return (
    <SheetBox>
      <table className="sheet">
        <thead>
          <tr>
            <th>{t('admin.person')}</th>
            <th>{t('admin.roles')}</th>
            <th>{t('admin.groups')}</th>
            <th>
              <span className="only-heard">{t('admin.edit')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {people.map((person) => (
            <tr key={person.subject}>
              <td>
                <bdi>{plainVisible(person.subject)}</bdi> <span className="tag">{plainVisible(person.source)}</span>{' '}
                {!person.active && <span className="tag bad">{t('admin.inactive')}</span>}
              </td>
              <td>{person.roles.join(', ')}</td>
              <td className="wrap">{person.groups.map(plainVisible).join(', ')}</td>
              <td>
                {onEdit && (
                  <Button size="compact-sm" variant="subtle" onClick={() => onEdit(person)}>
                    {t('admin.edit')}
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </SheetBox>
  );
}

/** People who may sign in, with roles and groups; admins change them. */
export function People() {
  const { t } = useTranslation();
  const isAdmin = useMe().roles.includes('admin');
  const [draft, setDraft] = useState(NOBODY);
  const people = useQuery({ queryKey: ['people'], queryFn: fetchPeople });
  const edit = ({ subject, roles, groups, active }: Person) =>
    setDraft({ subject, roles, groups: groups.join(', '), active });
  return (
    <section className="card stack" aria-label={t('admin.people')}>
      <h2>{t('admin.people')}</h2>
      <Loaded query={people}>{(found) => <PeopleTable people={found} {...(isAdmin ? { onEdit: edit } : {})} />}</Loaded>
      {isAdmin && <PersonForm draft={draft} onChange={setDraft} />}
    </section>
  );
}
