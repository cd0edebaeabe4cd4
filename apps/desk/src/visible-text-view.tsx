import { Alert, Box, Code } from '@mantine/core';
import { visibleParts } from './visible-text.ts';

/** The whole text, wrapped and never cut, with everything invisible named. */
export function VisibleText({ text, label }: { text: string; label: string }) {
  const parts = visibleParts(text);
  const hidden = parts.filter((part) => part.hidden).length;
  return (
    <Box>
      <Code block aria-label={label} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere', fontSize: 14 }}>
        {parts.map((part, index) =>
          part.hidden ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one fixed text have no other identity
            <mark key={index}>{part.text}</mark>
          ) : (
            part.text
          ),
        )}
      </Code>
      {hidden > 0 && (
        <Alert color="orange" mt="xs" title="Hidden characters">
          {hidden} invisible, direction-changing or repeated blank parts are shown marked above.
        </Alert>
      )}
    </Box>
  );
}
