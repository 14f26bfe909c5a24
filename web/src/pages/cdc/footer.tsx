import { Button } from '@mantine/core';

import { ActionButton } from '../../components/action-button';
import styles from '../upgrade.module.css';

interface FooterProps {
  back?: () => void;
  next?: () => void;
  /** Why the next step has to wait. */
  missing?: string | null;
}

export function Footer({ back, next, missing = null }: FooterProps) {
  return (
    <div className={styles.footer}>
      {back !== undefined && (
        <Button variant="default" onClick={back}>
          Back
        </Button>
      )}
      {next !== undefined && (
        <ActionButton onClick={next} disabledReason={missing}>
          Continue
        </ActionButton>
      )}
    </div>
  );
}
