// Draws one diagram in a frame without an origin: nothing here can reach the page, its storage or the network.
import mermaid from "mermaid";
import { drawRequest, MAX_DIAGRAM_CHARACTERS, type DrawAnswer, type DrawRequest } from "../state/diagram";

const MAX_EDGES = 300;
/** A wide diagram is made smaller up to this share of its size, and scrolled beyond. */
const SMALLEST_SCALE = 0.6;
/** What a text must not change with a directive of its own. */
const FIXED = [
  "secure",
  "securityLevel",
  "startOnLoad",
  "maxTextSize",
  "maxEdges",
  "suppressErrorRendering",
  "htmlLabels",
  "flowchart.htmlLabels",
  "theme",
  "themeCSS",
  "darkMode",
  "fontFamily",
  "altFontFamily",
  "dompurifyConfig",
];

const box = document.createElement("div");
document.body.append(box);
/** Requests are drawn one after the other. Only the newest one is shown. */
let newest: DrawRequest | undefined;
let drawing: Promise<void> = Promise.resolve();

window.addEventListener("message", ({ source, data }) => {
  const request = drawRequest(data);
  if (source !== window.parent || request === undefined) return;
  newest = request;
  drawing = drawing.then(() => (newest === request ? draw(request) : undefined));
});

async function draw({ text, isDark }: DrawRequest) {
  document.documentElement.style.colorScheme = isDark ? "dark" : "light";
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict",
    secure: FIXED,
    maxTextSize: MAX_DIAGRAM_CHARACTERS,
    maxEdges: MAX_EDGES,
    suppressErrorRendering: true,
    // Labels are text of the drawing, never HTML.
    htmlLabels: false,
    flowchart: { htmlLabels: false },
    theme: isDark ? "dark" : "neutral",
    darkMode: isDark,
    fontFamily: getComputedStyle(document.body).fontFamily,
  });
  try {
    const { svg } = await mermaid.render("diagram", text);
    box.innerHTML = svg;
    withoutLinks(box);
    fit(box.querySelector("svg"));
    tell({ height: box.scrollHeight });
  } catch {
    box.replaceChildren();
    tell({ failed: true });
  }
}

/** The frame has nowhere to go, so a link would only look like one. */
function withoutLinks(drawn: Element) {
  for (const link of drawn.querySelectorAll("a")) {
    for (const name of link.getAttributeNames()) if (name.endsWith("href")) link.removeAttribute(name);
  }
}

function fit(drawn: SVGSVGElement | null) {
  const width = drawn?.viewBox.baseVal.width ?? 0;
  if (drawn !== null && width > 0) drawn.style.minWidth = `${Math.round(width * SMALLEST_SCALE)}px`;
}

/** The page has an origin that this frame cannot know. What is told is no secret. */
function tell(answer: DrawAnswer) {
  window.parent.postMessage(answer, "*");
}

new ResizeObserver(() => {
  if (box.firstChild !== null) tell({ height: box.scrollHeight });
}).observe(box);
