import { describe, expect, it } from 'vitest';

const FILES: Record<string, string> = import.meta.glob('../**/*.tsx', { query: '?raw', import: 'default', eager: true });
const DIALOG = /<(Modal|ConfirmDialog)\b/;

/** Dialogs whose content, with the command, is in another file. */
const CONTENT: Record<string, string> = {
  'pages/table/actions.tsx': 'pages/table/dry-run.tsx',
};

/** Dialogs without a command, and why. */
const WITHOUT: Record<string, string> = {
  'pages/access/secret.tsx': 'shows a secret once; the dialog before it has the command that makes one',
  'pages/sql/save.tsx': 'no command saves a statement',
  'pages/view.tsx': 'no command rolls a view back',
};

const code = (path: string) => FILES[path.startsWith('components/') ? `./${path.slice('components/'.length)}` : `../${path}`] ?? '';
const paths = Object.keys(FILES).map((path) => (path.startsWith('./') ? `components/${path.slice(2)}` : path.slice(3)));
const dialogs = paths.filter((path) => DIALOG.test(code(path)));
const hasCommand = (text: string) => /<InTerminal\b/.test(text) || /command=\{(?!null\})/.test(text);

describe('a dialog', () => {
  it.each(dialogs)('%s shows the command that does the same, or is an exception with a reason', (path) => {
    expect(hasCommand(code(CONTENT[path] ?? path)) !== path in WITHOUT).toBe(true);
  });

  it('is found by this test', () => {
    expect(dialogs.length).toBeGreaterThan(30);
    expect([...Object.keys(WITHOUT), ...Object.keys(CONTENT)].filter((path) => !dialogs.includes(path))).toEqual([]);
  });

  it('has as many commands as a file has dialogs of its own', () => {
    const few = dialogs.filter((path) => {
      const text = code(path);
      const own = text.match(/<Modal\b/g)?.length ?? 0;
      const shown = text.match(/<InTerminal\b/g)?.length ?? 0;
      return shown < own && !(path in WITHOUT) && !(path in CONTENT);
    });
    expect(few).toEqual([]);
  });
});
