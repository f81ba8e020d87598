// A list that follows new entries until the user scrolls up, and does not move while they read there.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../feeds/preferences";
import { Icon } from "./Icon";

const NEAR_END_PX = 80;
/** Space below an entry that the list was scrolled to. */
const BELOW_TARGET_PX = 16;

interface ScrollerProps {
  label: string;
  children: ComponentChildren;
  onEnd?: () => void;
  /** The call that waits for the user. While the list follows, its card stays in view. */
  target?: string | undefined;
}

export function Scroller({ label, children, onEnd, target }: ScrollerProps) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  /** Where the list was last. Only a user moves it up from there. */
  const lastTop = useRef(0);
  const wanted = useRef(target);
  const [isAway, setAway] = useState(false);

  const follow = () => {
    if (box.current === null) return;
    const end = box.current.scrollHeight - box.current.clientHeight;
    box.current.scrollTop = Math.min(end, bottomOf(box.current, wanted.current) ?? end);
    lastTop.current = box.current.scrollTop;
  };
  const scrolled = () => {
    // The browser can still send a scroll event after the list was removed.
    if (box.current === null) return;
    const { scrollHeight, scrollTop, clientHeight } = box.current;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    // An entry may have grown since the list was scrolled, so being away from the end does not mean that the user left.
    if (isAtEnd) isFollowing.current = true;
    else if (scrollTop < lastTop.current) isFollowing.current = false;
    lastTop.current = scrollTop;
    setAway(!isFollowing.current);
    if (isAtEnd) onEnd?.();
  };
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (isFollowing.current) follow();
    });
    observer.observe(content.current!);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    wanted.current = target;
    if (isFollowing.current) follow();
  }, [target]);

  return (
    <div class="scroller">
      <div class="scroll" data-scroll ref={box} onScroll={scrolled} tabIndex={0} role="log" aria-label={label}>
        <div class="scroll-content" ref={content}>
          {children}
        </div>
      </div>
      {isAway && (
        <button
          type="button"
          class={`to-end ${target === undefined ? "" : "primary"}`}
          onClick={() => {
            isFollowing.current = true;
            setAway(false);
            follow();
          }}
        >
          <Icon name="down" /> {t(target === undefined ? "sessions.jumpLatest" : "sessions.jumpWaiting")}
        </button>
      )}
    </div>
  );
}

/** How far the list must be scrolled so that the lower end of a card is in view. */
function bottomOf(box: HTMLElement, callId: string | undefined): number | undefined {
  const card = callId === undefined ? null : box.querySelector(`[data-call="${CSS.escape(callId)}"]`);
  if (card === null) return undefined;
  const below = card.getBoundingClientRect().bottom - box.getBoundingClientRect().bottom;
  return box.scrollTop + below + BELOW_TARGET_PX;
}
