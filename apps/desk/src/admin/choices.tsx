import { Checkbox } from '@mantine/core';

type Props = {
  readonly title: string;
  readonly all: readonly string[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
};

/** Several of a few names. */
export function Choices({ title, all, chosen, onChange }: Props) {
  return (
    <fieldset className="choices">
      <legend>{title}</legend>
      {all.map((name) => (
        <Checkbox
          key={name}
          size="xs"
          label={name}
          checked={chosen.includes(name)}
          onChange={(event) =>
            onChange(event.currentTarget.checked ? [...chosen, name] : chosen.filter((one) => one !== name))
          }
        />
      ))}
    </fieldset>
  );
}
