//! Tables: columns as wide as their content, narrowed and wrapped within cells when the screen is
//! too small.

use pulldown_cmark::Alignment;

use crate::ui::text::{DIM, Style, TextLine, TextSpan, wrap};

const BETWEEN: &str = " │ ";
/// A column is not narrowed below this.
const MIN_COLUMNS: usize = 4;

pub fn lines(rows: &[Vec<TextLine>], alignments: &[Alignment], width: usize) -> Vec<TextLine> {
    let widths = widths(rows, alignments.len(), width);
    let mut out = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let is_head = index == 0;
        out.extend(row_lines(row, &widths, alignments, is_head));
        if is_head {
            let rule: Vec<String> = widths.iter().map(|columns| "─".repeat(*columns)).collect();
            out.push(TextLine::styled(&rule.join("─┼─"), DIM));
        }
    }
    out
}

fn widths(rows: &[Vec<TextLine>], count: usize, width: usize) -> Vec<usize> {
    let widest = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(TextLine::width)
            .max()
    };
    let mut widths: Vec<usize> = (0..count)
        .map(|column| widest(column).unwrap_or_default().max(1))
        .collect();
    let room = width.saturating_sub(BETWEEN.chars().count() * count.saturating_sub(1));
    // Each round takes a column from the widest one, so the narrow ones keep what they need.
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max() else {
            break;
        };
        if *widest <= MIN_COLUMNS {
            break;
        }
        *widest -= 1;
    }
    widths
}

fn row_lines(
    row: &[TextLine],
    widths: &[usize],
    alignments: &[Alignment],
    is_head: bool,
) -> Vec<TextLine> {
    let empty = TextLine::new();
    let cells: Vec<Vec<TextLine>> = widths
        .iter()
        .enumerate()
        .map(|(column, columns)| wrap(row.get(column).unwrap_or(&empty), *columns, &empty, &empty))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    (0..height)
        .map(|level| {
            let mut line = TextLine::new();
            for (column, columns) in widths.iter().enumerate() {
                if column > 0 {
                    line.push(TextSpan::new(BETWEEN, DIM));
                }
                let cell = cells[column].get(level).unwrap_or(&empty);
                let is_last = column + 1 == widths.len();
                place(
                    &mut line,
                    cell,
                    *columns,
                    alignments.get(column),
                    is_head,
                    is_last,
                );
            }
            line
        })
        .collect()
}

fn place(
    line: &mut TextLine,
    cell: &TextLine,
    columns: usize,
    alignment: Option<&Alignment>,
    is_head: bool,
    is_last: bool,
) {
    let free = columns.saturating_sub(cell.width());
    let before = match alignment {
        Some(Alignment::Right) => free,
        Some(Alignment::Center) => free / 2,
        _ => 0,
    };
    line.push(TextSpan::new(&" ".repeat(before), Style::PLAIN));
    for span in cell.spans() {
        let style = if is_head {
            span.style().bold()
        } else {
            span.style()
        };
        line.push(TextSpan::new(span.text(), style));
    }
    if !is_last {
        line.push(TextSpan::new(&" ".repeat(free - before), Style::PLAIN));
    }
}
