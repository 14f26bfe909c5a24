import { SegmentedControl } from '@mantine/core';

interface ChoiceProps {
  label: string;
  value: string;
  set: (value: string) => void;
  options: { value: string; label: string }[];
}

/** One of a few, all in sight. */
export function Choice({ label, value, set, options }: ChoiceProps) {
  return <SegmentedControl size="xs" aria-label={label} value={value} onChange={set} data={options} />;
}
