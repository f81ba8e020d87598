// A diagram in a frame of its own. The frame and its code are loaded when the diagram comes into view. Until it is
// drawn, and where it cannot be drawn, its code is shown.
import { useEffect, useRef, useState } from "preact/hooks";
import { isDark, t } from "../feeds/preferences";
import {
  DIAGRAM_FRAME,
  DIAGRAM_LANGUAGE,
  DIAGRAM_TIMEOUT_MS,
  drawAnswer,
  MAX_DIAGRAM_CHARACTERS,
  type DrawRequest,
} from "../state/diagram";
import { CodeText } from "./Code";
import { CopyButton } from "./parts";

type Drawing = { state: "waiting" } | { state: "drawn"; height: number } | { state: "failed" | "late" | "long" };

export function DiagramBlock({ code }: { code: string }) {
  const box = useRef<HTMLElement>(null);
  const isNear = useIsNear(box);
  const [isCode, setCode] = useState(false);
  const [drawing, setDrawing] = useState<Drawing>({ state: code.length > MAX_DIAGRAM_CHARACTERS ? "long" : "waiting" });
  const isDrawn = drawing.state === "drawn";
  const canDraw = isDrawn || drawing.state === "waiting";
  return (
    <figure class="code diagram" ref={box}>
      <figcaption>
        <span>{DIAGRAM_LANGUAGE}</span>
        {!canDraw && (
          <span class="diagram-note" role="status">
            {t(`diagram.${drawing.state}`)}
          </span>
        )}
        <span class="grow" />
        {isDrawn && <Choice isCode={isCode} choose={setCode} />}
        <CopyButton text={code} label={t("app.copyCode")} />
      </figcaption>
      {(isCode || !isDrawn) && <CodeText language={DIAGRAM_LANGUAGE} code={code} />}
      {isNear && canDraw && (
        <DiagramFrame code={code} height={isDrawn ? drawing.height : undefined} isHidden={isCode} tell={setDrawing} />
      )}
    </figure>
  );
}

/** Also stops the list from following its end: the user looks at this block. */
function Choice({ isCode, choose }: { isCode: boolean; choose: (isCode: boolean) => void }) {
  return (
    <span class="diagram-choice" role="group" aria-label={t("diagram.showAs")}>
      <button type="button" class="quiet unfold" aria-pressed={isCode} onClick={() => choose(true)}>
        {t("diagram.code")}
      </button>
      <button type="button" class="quiet unfold" aria-pressed={!isCode} onClick={() => choose(false)}>
        {t("diagram.diagram")}
      </button>
    </span>
  );
}

interface DiagramFrameProps {
  code: string;
  /** Unknown until it is drawn. */
  height: number | undefined;
  isHidden: boolean;
  tell: (drawing: Drawing) => void;
}

/** The sandbox gives the frame an origin that nothing else has. It gets the text, and may only tell a height. */
function DiagramFrame({ code, height, isHidden, tell }: DiagramFrameProps) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [isLoaded, setLoaded] = useState(false);
  const isLate = height === undefined;
  useEffect(() => {
    const listen = ({ source, data }: MessageEvent) => {
      const answer = source === frame.current?.contentWindow ? drawAnswer(data) : undefined;
      if (answer !== undefined) tell("height" in answer ? { state: "drawn", ...answer } : { state: "failed" });
    };
    window.addEventListener("message", listen);
    return () => window.removeEventListener("message", listen);
  }, [tell]);
  useEffect(() => {
    if (!isLate) return;
    const timer = setTimeout(() => tell({ state: "late" }), DIAGRAM_TIMEOUT_MS);
    return () => clearTimeout(timer);
  }, [isLate, tell]);
  const dark = isDark.value;
  useEffect(() => {
    const request: DrawRequest = { text: code, isDark: dark };
    // An opaque origin has no name, so the message cannot be addressed to it. The window is the frame's own.
    if (isLoaded) frame.current?.contentWindow?.postMessage(request, "*");
  }, [code, dark, isLoaded]);
  return (
    <iframe
      ref={frame}
      class={`diagram-frame ${isLate ? "is-waiting" : ""}`}
      title={t("diagram.diagram")}
      src={DIAGRAM_FRAME}
      sandbox="allow-scripts"
      height={height}
      hidden={isHidden}
      onLoad={() => setLoaded(true)}
    />
  );
}

/** Once it was near the window, it stays so. */
function useIsNear(box: { current: HTMLElement | null }): boolean {
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    if (isNear || box.current === null) return;
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) setNear(true);
    });
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [box, isNear]);
  return isNear;
}
