import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { PostgreSQL, sql, SQLDialect } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useImperativeHandle, useRef, type Ref } from 'react';

import type { Engine } from '../api/sql-queries';
import { FUNCTIONS } from '../lib/sql-functions';
import styles from './sql-editor.module.css';

export interface EditorHandle {
  /** The selected text, or all of it. */
  chosen: () => string;
  set: (text: string) => void;
  insert: (text: string) => void;
}

interface SqlEditorProps {
  ref: Ref<EditorHandle>;
  initial: string;
  /** The columns of tables; of those that the statement does not mention, none. */
  schema: Record<string, string[]>;
  /** The namespace whose tables need no prefix. */
  namespace: string;
  /** Whose functions and words are completed. */
  engine: Engine;
  run: () => void;
  change: (text: string) => void;
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--firn-accent)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--firn-ok)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--firn-warn)' },
  { tag: [tags.lineComment, tags.blockComment], color: 'var(--mantine-color-dimmed)', fontStyle: 'italic' },
  { tag: tags.typeName, color: 'var(--firn-accent)' },
]);

// Spark quotes names with backticks, and texts with either quotation mark.
const SparkSQL = SQLDialect.define({
  ...PostgreSQL.spec,
  identifierQuotes: '`',
  doubleQuotedStrings: true,
  backslashEscapes: true,
  doubleDollarQuotedStrings: false,
});
const DIALECTS: Record<Engine, SQLDialect> = { instant: PostgreSQL, spark: SparkSQL };

/** Functions, and first the columns of the tables that the statement mentions: only these have columns in the schema. */
const words = (schema: Record<string, string[]>, engine: Engine): CompletionSource => (context) => {
  const columns = Object.entries(schema).flatMap(([table, names]) => names.map((label) => ({ label, detail: table, type: 'property', boost: 2 })));
  const word = context.matchBefore(/[A-Za-z_]\w*/);
  if (word === null || (word.from === word.to && !context.explicit)) return null;
  if (context.state.sliceDoc(word.from - 1, word.from) === '.') return null; // a column of a table
  const functions = FUNCTIONS[engine].map(({ name, arguments: detail, common }) => ({ label: name, detail, type: 'function', boost: common ? -1 : -2 }));
  return { from: word.from, options: [...columns, ...functions], validFor: /^\w*$/ };
};

const language = (schema: Record<string, string[]>, namespace: string, engine: Engine) => [
  sql({ dialect: DIALECTS[engine], schema, ...(namespace === '' ? {} : { defaultSchema: namespace }), upperCaseKeywords: true }),
  DIALECTS[engine].language.data.of({ autocomplete: words(schema, engine) }),
];

/** Where a statement is written: completion, colours, Ctrl+Enter. Tab leaves it, as any other field. */
export function SqlEditor({ ref, initial, schema, namespace, engine, run, change }: SqlEditorProps) {
  const home = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const parts = useRef(new Compartment());
  const now = useRef({ run, change, initial, schema, namespace, engine });
  useEffect(() => {
    now.current = { ...now.current, run, change };
  });
  useEffect(() => {
    if (home.current === null) return;
    const start = now.current;
    const editor = new EditorView({
      parent: home.current,
      state: EditorState.create({
        doc: start.initial,
        extensions: [
          Prec.highest(keymap.of([{ key: 'Mod-Enter', run: () => (now.current.run(), true) }])),
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          autocompletion(),
          syntaxHighlighting(colours),
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
          placeholder('SELECT …'),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': 'SQL', 'aria-multiline': 'true', spellcheck: 'false' }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) now.current.change(update.state.doc.toString());
          }),
          parts.current.of(language(start.schema, start.namespace, start.engine)),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);
  useEffect(() => {
    view.current?.dispatch({ effects: parts.current.reconfigure(language(schema, namespace, engine)) });
  }, [schema, namespace, engine]);
  useImperativeHandle(ref, () => ({
    chosen: () => {
      const state = view.current?.state;
      if (state === undefined) return '';
      const { from, to } = state.selection.main;
      return from === to ? state.doc.toString() : state.sliceDoc(from, to);
    },
    set: (text) => {
      const editor = view.current;
      editor?.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text }, selection: { anchor: text.length } });
    },
    insert: (text) => {
      const editor = view.current;
      editor?.dispatch(editor.state.replaceSelection(text));
      editor?.focus();
    },
  }));
  return <div ref={home} className={styles.editor} />;
}
