// Bar charts in SVG. Every bar also has its value as text, for screen readers.
export interface Bar {
  key: string;
  label: string;
  value: number;
  /** A share of `value` that is drawn darker. */
  part?: number;
  text: string;
}

const WIDTH = 420;
const ROW = 40;
const BAR = 10;

export function BarChart({ title, bars }: { title: string; bars: readonly Bar[] }) {
  const most = Math.max(...bars.map((bar) => bar.value), Number.EPSILON);
  const length = (value: number) => Math.max((value / most) * WIDTH, value > 0 ? 2 : 0);
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${bars.length * ROW}`} role="img" aria-label={spoken(title, bars)}>
        {bars.map((bar, at) => (
          <g key={bar.key} transform={`translate(0 ${at * ROW})`}>
            <text x="0" y="14" class="chart-label">
              {clip(bar.label)}
            </text>
            <text x={WIDTH} y="14" text-anchor="end" class="chart-value">
              {bar.text}
            </text>
            <rect x="0" y="21" width={WIDTH} height={BAR} rx={BAR / 2} class="chart-track" />
            <rect x="0" y="21" width={length(bar.value)} height={BAR} rx={BAR / 2} class="chart-bar" />
            {bar.part !== undefined && (
              <rect x="0" y="21" width={length(bar.part)} height={BAR} rx={BAR / 2} class="chart-part" />
            )}
          </g>
        ))}
      </svg>
    </figure>
  );
}

const MAX_LABEL = 40;

function clip(label: string): string {
  return label.length > MAX_LABEL ? `${label.slice(0, MAX_LABEL - 1)}…` : label;
}

function spoken(title: string, bars: readonly Bar[]): string {
  return `${title}: ${bars.map((bar) => `${bar.label} ${bar.text}`).join("; ")}`;
}
