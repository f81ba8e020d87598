// A list that follows new entries until the user scrolls away, and does not move while they read there.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { t } from "../feeds/preferences";
import { Icon } from "./Icon";

const NEAR_END_PX = 80;
/** Space below an entry that the list was scrolled to. */
const BELOW_TARGET_PX = 16;
/** A browser rounds positions. */
const ROUNDING_PX = 1;

interface ScrollerProps {
  label: string;
  children: ComponentChildren;
  onEnd?: () => void;
  /** The call that waits for the user. The list moves to its card, and stays there until the user scrolls. */
  target?: string | undefined;
  /** The call of the link that was opened. The user asked for it, wherever they read. */
  asked?: string | undefined;
}

/** What the list keeps in view: the card that waits, its end, or what the user scrolled to. */
type Mode = "card" | "end" | "user";

/** What the button leads to, if there is one. */
type Lead = "latest" | "card above" | "card below" | undefined;

export function Scroller({ label, children, onEnd, target, asked }: ScrollerProps) {
  const content = useRef<HTMLDivElement>(null);
  const { box, lead, scrolled, unfolds, go } = useFollowing(content, target, asked, onEnd);
  const isToCard = lead !== "latest";
  return (
    <div class="scroller">
      <div class="scroll" data-scroll ref={box} onScroll={scrolled} tabIndex={0} role="log" aria-label={label}>
        <div class="scroll-content" ref={content} onClick={unfolds}>
          {children}
        </div>
      </div>
      {lead !== undefined && (
        <button type="button" class={`to-end ${isToCard ? "primary" : ""}`} onClick={() => go(isToCard)}>
          <Icon name={lead === "card above" ? "up" : "down"} />{" "}
          {t(isToCard ? "sessions.jumpWaiting" : "sessions.jumpLatest")}
        </button>
      )}
    </div>
  );
}

function useFollowing(
  content: { current: HTMLDivElement | null },
  target: string | undefined,
  asked: string | undefined,
  onEnd: (() => void) | undefined,
) {
  const box = useRef<HTMLDivElement>(null);
  const mode = useRef<Mode>("end");
  /** Where the list was last. If it is elsewhere, the user moved it. */
  const lastTop = useRef(0);
  const wanted = useRef<string | undefined>(undefined);
  const [lead, setLead] = useState<Lead>(undefined);

  const follow = useCallback(() => {
    const list = box.current;
    if (list === null) return;
    const end = list.scrollHeight - list.clientHeight;
    if (mode.current === "card") list.scrollTop = Math.min(end, bottomOf(list, wanted.current) ?? end);
    else if (mode.current === "end" || isAtEnd(list)) {
      mode.current = "end";
      list.scrollTop = end;
    }
    lastTop.current = list.scrollTop;
    setLead(leadOf(list, mode.current, wanted.current));
  }, []);
  useEffect(() => {
    const observer = new ResizeObserver(follow);
    observer.observe(content.current!);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, [content, follow]);
  useEffect(() => {
    wanted.current = target;
    if (target === undefined && mode.current === "card") mode.current = "end";
    if (target !== undefined && mode.current === "end") mode.current = "card";
    follow();
  }, [target, follow]);
  useEffect(() => {
    if (asked === undefined || asked !== wanted.current) return;
    mode.current = "card";
    follow();
  }, [asked, target, follow]);

  const scrolled = () => {
    const list = box.current;
    // The browser can still send a scroll event after the list was removed.
    if (list === null) return;
    const moved = list.scrollTop - lastTop.current;
    // An entry may have grown since the list was scrolled, so being away from the end does not mean that the user left.
    if (Math.abs(moved) > ROUNDING_PX) {
      if (isAtEnd(list)) mode.current = "end";
      else if (moved < 0 || mode.current === "card") mode.current = "user";
    }
    lastTop.current = list.scrollTop;
    setLead(leadOf(list, mode.current, wanted.current));
    if (isAtEnd(list)) onEnd?.();
  };
  /** What the user unfolds stays where it is, so that they can read it from its beginning. */
  const unfolds = ({ target: clicked }: Event) => {
    if (clicked instanceof Element && clicked.closest("summary, .unfold") !== null) mode.current = "user";
  };
  const go = (isToCard: boolean) => {
    mode.current = isToCard ? "card" : "end";
    follow();
  };
  return { box, lead, scrolled, unfolds, go };
}

function isAtEnd(list: HTMLElement): boolean {
  return list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END_PX;
}

function leadOf(list: HTMLElement, mode: Mode, target: string | undefined): Lead {
  if (mode === "card") return undefined;
  const bottom = bottomOf(list, target);
  if (bottom !== undefined && bottom > list.scrollTop + BELOW_TARGET_PX) return "card below";
  if (bottom !== undefined && bottom < list.scrollTop - list.clientHeight) return "card above";
  return mode === "end" ? undefined : "latest";
}

/** How far the list must be scrolled so that the lower end of a card is in view. */
function bottomOf(list: HTMLElement, callId: string | undefined): number | undefined {
  const card = callId === undefined ? null : list.querySelector(`[data-call="${CSS.escape(callId)}"]`);
  if (card === null) return undefined;
  const below = card.getBoundingClientRect().bottom - list.getBoundingClientRect().bottom;
  return list.scrollTop + below + BELOW_TARGET_PX;
}
