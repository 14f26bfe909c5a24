import { Snippet } from './snippet';

/** The command that does the same as the dialog around it. */
export function InTerminal({ command }: { command: string }) {
  return (
    <div>
      <div className="dim">In a terminal</div>
      <Snippet code={command} label="the same in a terminal" wraps />
    </div>
  );
}
