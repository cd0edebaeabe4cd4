import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Call } from '../api/calls.ts';
import { choicesOf, GROUPINGS, groupingOf, SORTS, sortOf } from './arrange.ts';
import type { InboxSearch } from './inbox-search.ts';

type Props = {
  readonly calls: readonly Call[];
  readonly search: InboxSearch;
  readonly onChange: (search: InboxSearch) => void;
};

const FIELDS = ['host', 'agent', 'tool', 'queue'] as const;

function SearchBox({ search, onChange }: Omit<Props, 'calls'>) {
  const { t } = useTranslation();
  const [text, setText] = useState(search.q ?? '');
  useEffect(() => setText(search.q ?? ''), [search.q]);
  const settle = useDebouncedCallback((q: string) => {
    const { q: _old, ...rest } = search;
    onChange(q === '' ? rest : { ...rest, q });
  }, 80);
  return (
    <TextInput
      type="search"
      size="xs"
      className="search"
      label={t('inbox.search')}
      labelProps={{ className: 'only-heard' }}
      placeholder={t('inbox.searchHint')}
      value={text}
      maxLength={200}
      onChange={(event) => {
        setText(event.currentTarget.value);
        settle(event.currentTarget.value);
      }}
    />
  );
}

/** Search, filters, grouping and order of the inbox. */
export function InboxFilters({ calls, search, onChange }: Props) {
  const { t } = useTranslation();
  const [more, setMore] = useState(false);
  const set = (key: keyof InboxSearch, value: string) => {
    const { [key]: _old, ...rest } = search;
    onChange(value === '' ? rest : { ...rest, [key]: value });
  };
  const used = [...FIELDS, 'due' as const].filter((key) => search[key] !== undefined).length;
  return (
    <search className="filters" aria-label={t('inbox.filters')}>
      <div className="row tight">
        <SearchBox search={search} onChange={onChange} />
        <Button size="xs" variant={used > 0 ? 'light' : 'default'} aria-expanded={more} onClick={() => setMore(!more)}>
          {t('inbox.filters')}
          {used > 0 ? ` (${used})` : ''}
        </Button>
      </div>
      {more && (
        <div className="filter-fields">
          {FIELDS.map((field) => (
            <NativeSelect
              key={field}
              size="xs"
              label={t(`inbox.filter.${field}`)}
              value={search[field] ?? ''}
              onChange={(event) => set(field, event.currentTarget.value)}
              data={[
                { value: '', label: t(`inbox.any.${field}`) },
                ...[...new Set([...choicesOf(calls, field), search[field] ?? ''])].filter(Boolean),
              ]}
            />
          ))}
          <NativeSelect
            size="xs"
            label={t('inbox.group')}
            value={groupingOf(search)}
            onChange={(event) => set('group', event.currentTarget.value === 'none' ? '' : event.currentTarget.value)}
            data={GROUPINGS.map((value) => ({ value, label: t(`inbox.group.${value}`) }))}
          />
          <NativeSelect
            size="xs"
            label={t('inbox.sort')}
            value={sortOf(search)}
            onChange={(event) => set('sort', event.currentTarget.value === 'age' ? '' : event.currentTarget.value)}
            data={SORTS.map((value) => ({ value, label: t(`inbox.sort.${value}`) }))}
          />
        </div>
      )}
    </search>
  );
}
