/**
 * Characters that a reader cannot see or that change how others are seen: controls, format and direction characters, tags,
 * variation selectors, fillers, private and unassigned ones, blanks other than the space. `\n` stays.
 */
const UNSEEN =
  /(?!\n)[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u{2800}]|(?! )\p{Zs}/gu;

/** The text with each such character as `\u{hex}`; CRLF becomes `\n`. A written `\u{` stays as it is. */
export const visibleText = (text: string): string =>
  text.replaceAll('\r\n', '\n').replace(UNSEEN, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
