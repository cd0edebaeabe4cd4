import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Loaded } from './page-state.tsx';
import { SheetBox } from './sheet-box.tsx';

type Props<T> = {
  readonly query: UseQueryResult<readonly T[]>;
  /** Shown in place of a table without rows. */
  readonly none: ReactNode;
  readonly heads: readonly string[];
  /** Name of the last column, which holds buttons; heard, not seen. */
  readonly acts: string;
  readonly row: (item: T) => ReactNode;
};

/** What was read as a table whose last column holds buttons; says it when there is nothing. */
export function Sheet<T>({ query, none, heads, acts, row }: Props<T>) {
  return (
    <Loaded query={query}>
      {(found) =>
        found.length === 0 ? (
          none
        ) : (
          <SheetBox>
            <table className="sheet">
              <thead>
                <tr>
                  {heads.map((head) => (
                    <th key={head}>{head}</th>
                  ))}
                  <th>
                    <span className="only-heard">{acts}</span>
                  </th>
                </tr>
              </thead>
              <tbody>{found.map(row)}</tbody>
            </table>
          </SheetBox>
        )
      }
    </Loaded>
  );
}
