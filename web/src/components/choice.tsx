import { SegmentedControl } from '@mantine/core';

import styles from './components.module.css';

interface ChoiceProps {
  label: string;
  value: string;
  set: (value: string) => void;
  options: { value: string; label: string }[];
}

/** One of a few, all in sight. */
export function Choice({ label, value, set, options }: ChoiceProps) {
  return (
    <div className={styles.choice}>
      <SegmentedControl size="xs" aria-label={label} value={value} onChange={set} data={options} />
    </div>
  );
}
