import { Button, Menu, Tooltip, type ButtonProps } from '@mantine/core';
import type { MouseEvent, ReactNode } from 'react';

import type { Need } from '../lib/access';
import { useWhyNot } from './current-user';

interface ActProps extends ButtonProps {
  children: ReactNode;
  /** Why it cannot be pressed now; without one it can. */
  disabledReason?: string | null | undefined;
  /** The privileges that it takes. */
  needs?: readonly Need[];
  onClick?: (event: MouseEvent<HTMLButtonElement>) => void;
  type?: 'button' | 'submit';
}

/** A button that says why when it cannot be pressed. It stays reachable by keyboard, or the reason could not be read. */
export function ActionButton({ children, disabledReason, needs = [], onClick, type = 'button', ...rest }: ActProps) {
  const reason = useWhyNot()(...needs) ?? disabledReason ?? null;
  if (reason === null) {
    return (
      <Button type={type} onClick={onClick} {...rest}>
        {children}
      </Button>
    );
  }
  return (
    <Tooltip label={reason} events={{ hover: true, focus: true, touch: true }}>
      <Button
        {...rest}
        data-disabled
        aria-disabled
        aria-description={reason}
        onClick={(event) => event.preventDefault()}
      >
        {children}
      </Button>
    </Tooltip>
  );
}

interface ActionMenuItemProps {
  children: ReactNode;
  disabledReason: string | null;
  icon?: ReactNode;
  onClick: () => void;
}

/** The same in a menu: an entry that is not to be chosen stays reachable too, and says why below. */
export function ActionMenuItem({ children, disabledReason: why, icon, onClick }: ActionMenuItemProps) {
  return (
    <Menu.Item leftSection={icon} aria-disabled={why !== null} closeMenuOnClick={why === null} onClick={() => why === null && onClick()}>
      <span className={why === null ? '' : 'dim'}>{children}</span>
      {why !== null && <div className="dim" style={{ whiteSpace: 'normal', fontSize: 12 }}>{why}</div>}
    </Menu.Item>
  );
}
