// Long lists: rows come in chunks, and a chunk is made only when it comes near the window. It stays once it is made,
// so the browser's own search, selection and reading order keep working.
import { Component, createRef, type ComponentChildren } from "preact";

const CHUNK_ROWS = 16;
/** Estimated height of a row in a chunk that was never rendered. */
const ROW_HEIGHT_GUESS = 96;
const AHEAD = "1200px 0px";

interface ChunksProps<T> {
  rows: readonly T[];
  render: (row: T) => ComponentChildren;
  /** Anything else that rows depend on. When it changes, all rendered rows are rendered again. */
  stamp?: unknown;
  /** The row that the list is scrolled to. It is rendered wherever it is, because nothing can scroll to it before. */
  isWanted?: (row: T) => boolean;
}

export function Chunks<T extends { key: string }>({ rows, render, stamp, isWanted }: ChunksProps<T>) {
  const chunks: (readonly T[])[] = [];
  for (let at = 0; at < rows.length; at += CHUNK_ROWS) chunks.push(rows.slice(at, at + CHUNK_ROWS));
  return (
    <>
      {chunks.map((chunk, at) => (
        <Chunk
          key={at}
          rows={chunk}
          render={render}
          stamp={stamp}
          isNeeded={at >= chunks.length - 2 || (isWanted !== undefined && chunk.some(isWanted))}
        />
      ))}
    </>
  );
}

interface ChunkProps<T> extends Omit<ChunksProps<T>, "isWanted"> {
  /** It is rendered wherever the window is. */
  isNeeded: boolean;
}

class Chunk<T extends { key: string }> extends Component<ChunkProps<T>, { isNear: boolean }> {
  override state = { isNear: this.props.isNeeded };
  private readonly box = createRef<HTMLDivElement>();
  private observer: IntersectionObserver | undefined;

  override componentDidMount() {
    if (this.state.isNear || this.box.current === null) return;
    this.box.current.style.height = `${this.props.rows.length * ROW_HEIGHT_GUESS}px`;
    this.observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) this.make();
      },
      { root: this.box.current.closest("[data-scroll]"), rootMargin: AHEAD },
    );
    this.observer.observe(this.box.current);
  }

  override componentDidUpdate() {
    if (this.props.isNeeded && !this.state.isNear) this.make();
  }

  override componentWillUnmount() {
    this.observer?.disconnect();
  }

  override shouldComponentUpdate(next: ChunkProps<T>, state: { isNear: boolean }) {
    const { rows, stamp, isNeeded } = this.props;
    if (isNeeded !== next.isNeeded && !this.state.isNear) return true;
    const isSame = rows.length === next.rows.length && rows.every((row, at) => row === next.rows[at]);
    return !isSame || stamp !== next.stamp || state.isNear !== this.state.isNear;
  }

  private make() {
    this.observer?.disconnect();
    if (this.box.current !== null) this.box.current.style.height = "";
    this.setState({ isNear: true });
  }

  override render() {
    const { rows, render } = this.props;
    return (
      <div class="chunk" ref={this.box}>
        {this.state.isNear && rows.map((row) => <Row key={row.key}>{render(row)}</Row>)}
      </div>
    );
  }
}

function Row({ children }: { children: ComponentChildren }) {
  return <>{children}</>;
}
