// Moves the keyboard focus to an element that just appeared after a click.
import { useEffect, useRef } from "preact/hooks";

/** The `autofocus` attribute works only once per document. */
export function useFocus<T extends HTMLElement>() {
  const element = useRef<T>(null);
  useEffect(() => element.current?.focus(), []);
  return element;
}
