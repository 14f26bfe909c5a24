/** Two peaks: the mark of the console. */
export function Logo({ size = 22 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden>
      <rect width="32" height="32" rx="7" fill="#0b5c7d" />
      <g fill="none" stroke="#e6f6fc" strokeWidth="2.4" strokeLinecap="round" strokeLinejoin="round">
        <path d="M6 23 13 10l4.2 7.4" />
        <path d="M12.5 23 19 12.5 26 23Z" />
      </g>
    </svg>
  );
}
