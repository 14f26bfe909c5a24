export interface Piece {
  text: string;
  /** Something to be typed as it stands: a command, a setting, a name. */
  code: boolean;
}

/** A sentence of the server's, in which what is to be typed stands between backticks. */
export function pieces(sentence: string): Piece[] {
  const parts = sentence.split('`');
  // A backtick without its other half is one that was meant.
  const whole = parts.length % 2 === 1 ? parts : [...parts.slice(0, -2), parts.slice(-2).join('`')];
  return whole.map((text, index) => ({ text, code: index % 2 === 1 })).filter(({ text }) => text !== '');
}
