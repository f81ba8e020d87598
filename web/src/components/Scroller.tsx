// A list that follows new entries while the user is at the end, and does not move while they read further up.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../feeds/preferences";
import { Icon } from "./Icon";

const NEAR_END_PX = 80;

interface ScrollerProps {
  label: string;
  children: ComponentChildren;
  onEnd?: () => void;
}

export function Scroller({ label, children, onEnd }: ScrollerProps) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const [isAway, setAway] = useState(false);

  const toEnd = () => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  };
  const scrolled = () => {
    // The browser can still send a scroll event after the list was removed.
    if (box.current === null) return;
    const { scrollHeight, scrollTop, clientHeight } = box.current;
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    setAway(!isAtEnd.current);
    if (isAtEnd.current) onEnd?.();
  };
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (isAtEnd.current) toEnd();
    });
    observer.observe(content.current!);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);

  return (
    <div class="scroller">
      <div class="scroll" data-scroll ref={box} onScroll={scrolled} tabIndex={0} role="log" aria-label={label}>
        <div class="scroll-content" ref={content}>
          {children}
        </div>
      </div>
      {isAway && (
        <button type="button" class="to-end" onClick={toEnd}>
          <Icon name="down" /> {t("sessions.jumpLatest")}
        </button>
      )}
    </div>
  );
}
