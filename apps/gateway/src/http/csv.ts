/** A cell of RFC 4180. SECURITY: a spreadsheet runs what begins like a formula; such text gets a quote in front. */
function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A table as CSV (RFC 4180) with its header, lines ended by CRLF. */
export const csvOf = (columns: readonly string[], rows: readonly (readonly unknown[])[]): string =>
  [columns, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
