// Moves the keyboard to what has just appeared because a person asked for it.
import { useEffect, useRef } from "preact/hooks";

/** The `autofocus` attribute works once per document only. */
export function useFocus<T extends HTMLElement>() {
  const element = useRef<T>(null);
  useEffect(() => element.current?.focus(), []);
  return element;
}
