import { Button, NativeSelect, TextInput } from '@mantine/core';
import { memo, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Call } from '../api/calls.ts';
import { plainVisible } from '../text/visible-text.ts';
import { choicesOf, GROUPINGS, groupingOf, SORTS, sortOf } from './arrange.ts';
import type { InboxSearch } from './inbox-search.ts';

type Props = {
  readonly calls: readonly Call[];
  readonly search: InboxSearch;
  readonly onChange: (change: (before: InboxSearch) => InboxSearch) => void;
  /** What the search box holds; the address takes it later. */
  readonly text: string;
  readonly onType: (text: string) => void;
  readonly onTyped: () => void;
};

const FIELDS = ['host', 'agent', 'tool', 'queue'] as const;

function SearchBox({ text, onType, onTyped }: Pick<Props, 'text' | 'onType' | 'onTyped'>) {
  const { t } = useTranslation();
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
      onChange={(event) => onType(event.currentTarget.value)}
      onBlur={onTyped}
    />
  );
}

/** Memoised, because choices are collected from every waiting call. */
const FilterFields = memo(function FilterFields({
  calls,
  search,
  onChange,
}: Pick<Props, 'calls' | 'search' | 'onChange'>) {
  const { t } = useTranslation();
  const choices = useMemo(() => FIELDS.map((field) => choicesOf(calls, field)), [calls]);
  const set = (key: keyof InboxSearch, value: string) =>
    onChange(({ [key]: _old, ...rest }) => (value === '' ? rest : { ...rest, [key]: value }));
  return (
    <div className="filter-fields">
      {FIELDS.map((field, at) => (
        <NativeSelect
          key={field}
          size="xs"
          label={t(`inbox.filter.${field}`)}
          value={search[field] ?? ''}
          onChange={(event) => set(field, event.currentTarget.value)}
          data={[
            { value: '', label: t(`inbox.any.${field}`) },
            ...[...new Set([...(choices[at] ?? []), search[field] ?? ''])]
              .filter(Boolean)
              .map((value) => ({ value, label: plainVisible(value) })),
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
  );
});

/** Search, filters, grouping and order of the inbox. */
export function InboxFilters({ calls, search, onChange, text, onType, onTyped }: Props) {
  const { t } = useTranslation();
  const [more, setMore] = useState(false);
  const used = [...FIELDS, 'due' as const].filter((key) => search[key] !== undefined).length;
  return (
    <search className="filters" aria-label={t('inbox.filters')}>
      <div className="row tight">
        <SearchBox text={text} onType={onType} onTyped={onTyped} />
        <Button size="xs" variant={used > 0 ? 'light' : 'default'} aria-expanded={more} onClick={() => setMore(!more)}>
          {t('inbox.filters')}
          {used > 0 ? ` (${used})` : ''}
        </Button>
      </div>
      {more && <FilterFields calls={calls} search={search} onChange={onChange} />}
    </search>
  );
}
