import { Button, CloseButton, Popover, TextInput } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { Link } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { InboxSearch } from './inbox-search.ts';

type SavedView = { readonly name: string; readonly search: InboxSearch };

const MAX_VIEWS = 30;

const isSame = (a: InboxSearch, b: InboxSearch): boolean =>
  JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());

function SaveForm({ onSave }: { onSave: (name: string) => void }) {
  const { t } = useTranslation();
  const [open, setOpen] = useState(false);
  const [name, setName] = useState('');
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() === '') return;
    onSave(name.trim());
    setName('');
    setOpen(false);
  };
  return (
    <Popover opened={open} onChange={setOpen} trapFocus transitionProps={{ duration: 0 }}>
      <Popover.Target>
        <Button size="compact-xs" variant="subtle" onClick={() => setOpen(!open)}>
          {t('inbox.view.save')}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <form onSubmit={save}>
          <TextInput
            size="xs"
            label={t('inbox.view.name')}
            value={name}
            maxLength={40}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}

/** Filters under a name, kept in this browser. A view is a link, so that it can be opened and sent to somebody. */
export function SavedViews({ search, openId }: { search: InboxSearch; openId: string | undefined }) {
  const { t } = useTranslation();
  const [views, setViews] = useLocalStorage<readonly SavedView[]>({
    key: 'countersign-views',
    defaultValue: [],
    getInitialValueInEffect: false,
  });
  const builtIn = [
    { name: t('inbox.view.all'), search: {} },
    { name: t('inbox.view.due'), search: { due: true, sort: 'due' } },
  ];
  const link = ({ name, search: saved }: SavedView) => (
    <Link
      to={openId === undefined ? '/' : '/calls/$callId'}
      params={{ callId: openId ?? '' }}
      search={saved}
      className="view-link"
      data-chosen={isSame(search, saved) || undefined}
    >
      <bdi>{name}</bdi>
    </Link>
  );
  const known = [...builtIn, ...views].some((view) => isSame(view.search, search));
  return (
    <nav aria-label={t('inbox.views')} className="views">
      {builtIn.map((view) => (
        <span key={view.name}>{link(view)}</span>
      ))}
      {views.map((view) => (
        <span key={view.name} className="row tight">
          {link(view)}
          <CloseButton
            size="xs"
            aria-label={t('inbox.view.remove', { name: view.name })}
            onClick={() => setViews(views.filter(({ name }) => name !== view.name))}
          />
        </span>
      ))}
      {!known && (
        <SaveForm
          onSave={(name) =>
            setViews([...views.filter((view) => view.name !== name), { name, search }].slice(-MAX_VIEWS))
          }
        />
      )}
    </nav>
  );
}
