import { Button, Tooltip, type ButtonProps } from '@mantine/core';
import type { MouseEvent, ReactNode } from 'react';

interface ActProps extends ButtonProps {
  children: ReactNode;
  /** Why it cannot be pressed now; without one it can. */
  disabledReason?: string | null | undefined;
  onClick?: (event: MouseEvent<HTMLButtonElement>) => void;
  type?: 'button' | 'submit';
}

/** A button that says why when it cannot be pressed. It stays reachable by keyboard, or the reason could not be read. */
export function Act({ children, disabledReason, onClick, type = 'button', ...rest }: ActProps) {
  if (disabledReason === undefined || disabledReason === null) {
    return (
      <Button type={type} onClick={onClick} {...rest}>
        {children}
      </Button>
    );
  }
  return (
    <Tooltip label={disabledReason} events={{ hover: true, focus: true, touch: true }}>
      <Button
        {...rest}
        data-disabled
        aria-disabled
        aria-description={disabledReason}
        onClick={(event) => event.preventDefault()}
      >
        {children}
      </Button>
    </Tooltip>
  );
}
