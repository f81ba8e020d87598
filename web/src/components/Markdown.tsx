// Renders a parsed Markdown tree. Text stays text; nothing here can create HTML from it.
import { useMemo } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { parseMarkdown, type Align, type Block, type Inline } from "../state/markdown";
import { t } from "../feeds/preferences";
import { DIAGRAM_LANGUAGE } from "../state/diagram";
import { CodeBlock, Maths } from "./Code";
import { DiagramBlock } from "./Diagram";

export function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return <div class="markdown">{blocks.map(showBlock)}</div>;
}

function showBlock(block: Block): ComponentChildren {
  switch (block.type) {
    case "paragraph":
      return <p>{block.children.map(showInline)}</p>;
    case "heading":
      // Headings in a message rank below the page's own headings.
      return (
        <p
          class={`heading heading-${Math.min(block.depth, 4)}`}
          role="heading"
          aria-level={Math.min(block.depth + 2, 6)}
        >
          {block.children.map(showInline)}
        </p>
      );
    case "quote":
      return <blockquote>{block.children.map(showBlock)}</blockquote>;
    case "code":
      return block.language === DIAGRAM_LANGUAGE && !block.isOpen ? (
        <DiagramBlock key={block.value} code={block.value} />
      ) : (
        <CodeBlock language={block.language} code={block.value} />
      );
    case "math":
      return (
        <div class="math-scroll" tabIndex={0}>
          <Maths formula={block.value} isBlock />
        </div>
      );
    case "list":
      return block.ordered ? (
        <ol start={block.start}>{block.items.map(showItem)}</ol>
      ) : (
        <ul>{block.items.map(showItem)}</ul>
      );
    case "table":
      return <Table aligns={block.aligns} rows={block.rows} />;
    case "rule":
      return <hr />;
  }
}

function showItem({ checked, children }: { checked: boolean | undefined; children: Block[] }) {
  const first = children[0];
  const isTight = children.length === 1 && first?.type === "paragraph";
  return (
    <li class={checked === undefined ? undefined : "check-item"}>
      {checked !== undefined && <span class="check-mark">{checked ? "☑" : "☐"} </span>}
      {isTight ? first.children.map(showInline) : children.map(showBlock)}
    </li>
  );
}

function Table({ aligns, rows }: { aligns: Align[]; rows: Inline[][][] }) {
  const [head, ...body] = rows;
  const classOf = (column: number) => `align-${aligns[column] ?? "start"}`;
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label={t("item.table")}>
      <table>
        <thead>
          <tr>
            {head?.map((cell, column) => (
              <th scope="col" class={classOf(column)}>
                {cell.map(showInline)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {body.map((row) => (
            <tr>
              {row.map((cell, column) => (
                <td class={classOf(column)}>{cell.map(showInline)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function showInline(inline: Inline): ComponentChildren {
  switch (inline.type) {
    case "text":
      return inline.value;
    case "code":
      return <code>{inline.value}</code>;
    case "strong":
      return <strong>{inline.children.map(showInline)}</strong>;
    case "emphasis":
      return <em>{inline.children.map(showInline)}</em>;
    case "strike":
      return <s>{inline.children.map(showInline)}</s>;
    case "math":
      return <Maths formula={inline.value} isBlock={inline.isBlock} />;
    case "break":
      return <br />;
    case "link":
      return <Link href={inline.href}>{inline.children}</Link>;
  }
}

/** Shows the address beside the link text, because a model's link text cannot be trusted. */
function Link({ href, children }: { href: string; children: Inline[] }) {
  const isItself = isAddress(href, children);
  return (
    <>
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children.map(showInline)}
      </a>
      {!isItself && <span class="link-target"> ({href})</span>}
    </>
  );
}

/** Emphasis and formulas can show more than their text, so a link with one of them never shows just its address. */
function isAddress(href: string, children: Inline[]): boolean {
  const texts = children.map((child) => (child.type === "text" || child.type === "code" ? child.value : undefined));
  if (texts.includes(undefined)) return false;
  const label = texts.join("");
  return label === href || `${label}/` === href || href === `mailto:${label}` || href === `http://${label}`;
}
