// A browser opens few connections to one server. A tab that nobody looks at gives its streams back after a while.
const HIDDEN_LIMIT_MS = 30_000;

export function whileVisible(start: () => () => void): () => void {
  let stop: (() => void) | undefined = start();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const changed = () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") {
      stop ??= start();
    } else {
      timer = setTimeout(() => {
        stop?.();
        stop = undefined;
      }, HIDDEN_LIMIT_MS);
    }
  };
  document.addEventListener("visibilitychange", changed);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", changed);
    stop?.();
  };
}
