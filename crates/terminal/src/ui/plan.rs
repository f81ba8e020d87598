//! A plan as a person sees it: a tree of tasks with their states, drawn from the graph.

use std::collections::BTreeMap;

use codelab_client::{PlanView, TaskNote};
use codelab_policy::visible;
use codelab_protocol::{AgentName, PlanStatus, Task, TaskId, TaskStatus};

use crate::texts::CommandText;
use crate::{Language, Text};

use super::text::{BOLD, Colour, DIM, Style, TextLine};

const SPINNER: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];
/// More of a description is cut until the person asks for all of it.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// How the tree is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawing {
    /// Long descriptions are cut; the frame turns the sign of running tasks.
    Brief { frame: usize },
    /// Every description to its end.
    Whole,
}

/// Whether the tree of a plan is drawn while it runs. One task needs no tree.
pub fn is_under_way(view: &PlanView) -> bool {
    let is_open = |task: &Task| match task.status {
        TaskStatus::Pending | TaskStatus::Queued | TaskStatus::Running | TaskStatus::Waiting => {
            true
        }
        TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Skipped
        | TaskStatus::Cancelled => false,
    };
    view.plan.status == PlanStatus::Running
        && !view.is_single()
        && view.plan.tasks.iter().any(is_open)
}

/// Draws a plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanDrawing<'a> {
    pub view: &'a PlanView,
    pub language: Language,
}

impl PlanDrawing<'_> {
    fn tasks(&self) -> &[Task] {
        &self.view.plan.tasks
    }

    fn done(&self) -> usize {
        self.tasks()
            .iter()
            .filter(|task| task.status == TaskStatus::Completed)
            .count()
    }

    pub fn heading(&self) -> TextLine {
        let tasks = self.tasks();
        let priced: Vec<f64> = tasks
            .iter()
            .filter_map(|task| task.estimated_cost_usd)
            .collect();
        let cost = match (priced.len() == tasks.len(), priced.iter().sum::<f64>()) {
            (true, sum) => self.language.with(Text::CostAbout, &[&dollars(sum)]),
            (false, sum) if sum > 0.0 => self.language.with(Text::CostAtLeast, &[&dollars(sum)]),
            (false, _) => self.language.text(Text::CostUnknown).to_owned(),
        };
        let count = tasks.len().to_string();
        let done = match self.done() {
            0 => self.language.with(Text::TaskCount, &[&count]),
            done => self
                .language
                .with(Text::TasksCompleted, &[&done.to_string(), &count]),
        };
        TextLine::styled(self.language.text(Text::Plan), BOLD)
            .with(&format!(" · {done} · {cost}"), DIM)
    }

    /// Whether the brief tree leaves anything out.
    pub fn is_cut(&self) -> bool {
        self.tasks().iter().any(|task| brief(&task.description).1)
    }

    pub fn tree(&self, drawing: Drawing) -> Vec<TextLine> {
        let children = self.children();
        let mut lines = Vec::new();
        let roots = children.get(&None).cloned().unwrap_or_default();
        self.branch(&roots, &children, "", drawing, &mut lines);
        lines
    }

    fn branch(
        &self,
        tasks: &[usize],
        children: &BTreeMap<Option<usize>, Vec<usize>>,
        before: &str,
        drawing: Drawing,
        lines: &mut Vec<TextLine>,
    ) {
        for (position, &index) in tasks.iter().enumerate() {
            let is_last = position + 1 == tasks.len();
            lines.push(self.row(index, before, is_last, drawing));
            let next = format!("{before}{}", if is_last { "   " } else { "│  " });
            if let Some(below) = children.get(&Some(index)) {
                self.branch(below, children, &next, drawing, lines);
            }
        }
    }

    /// Each task hangs below the last of those it waits for, so that reading down is reading in
    /// order. Only tasks that stand before it count, which keeps a wrong graph from being drawn for
    /// ever.
    fn children(&self) -> BTreeMap<Option<usize>, Vec<usize>> {
        let tasks = self.tasks();
        let mut out: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        let order = self.in_order();
        for (position, &index) in order.iter().enumerate() {
            let parent = order[..position]
                .iter()
                .rev()
                .find(|earlier| tasks[index].depends_on.contains(&tasks[**earlier].id));
            out.entry(parent.copied()).or_default().push(index);
        }
        out
    }

    /// After whatever they wait for, else as the plan has them.
    fn in_order(&self) -> Vec<usize> {
        let tasks = self.tasks();
        let mut order: Vec<usize> = Vec::with_capacity(tasks.len());
        while order.len() < tasks.len() {
            let known = |id: &TaskId| tasks.iter().any(|task| task.id == *id);
            let placed = |id: &TaskId| order.iter().any(|index| tasks[*index].id == *id);
            let open = |index: &usize| !order.contains(index);
            let free = |index: &usize| {
                tasks[*index]
                    .depends_on
                    .iter()
                    .all(|id| placed(id) || !known(id))
            };
            let next = (0..tasks.len())
                .filter(open)
                .find(free)
                .or_else(|| (0..tasks.len()).find(open));
            let Some(next) = next else { break };
            order.push(next);
        }
        order
    }

    fn row(&self, index: usize, before: &str, is_last: bool, drawing: Drawing) -> TextLine {
        let task = &self.tasks()[index];
        let (frame, description) = match drawing {
            Drawing::Brief { frame } => match brief(&task.description) {
                (text, true) => (frame, text + "…"),
                (text, false) => (frame, text),
            },
            Drawing::Whole => (
                0,
                visible(&task.description)
                    .lines()
                    .collect::<Vec<_>>()
                    .join(" ⏎ "),
            ),
        };
        let note = self.view.notes.get(&task.id);
        // A task also waits for its tool calls. People need to act only where it waits for them.
        let status = match (task.status, note) {
            (TaskStatus::Waiting, Some(TaskNote::WaitsForPerson)) => TaskStatus::Waiting,
            (TaskStatus::Waiting, _) => TaskStatus::Running,
            (status, _) => status,
        };
        let (sign, style) = sign(status, frame);
        let mut line = TextLine::styled(
            &format!("{before}{}", if is_last { "└─ " } else { "├─ " }),
            DIM,
        )
        .with(sign, style)
        .with(&format!(" {}", task.id), BOLD)
        .with(
            &format!("  {}", short(&task.agent)),
            Style::colour(Colour::Magenta),
        );
        line.extend(TextLine::plain(&format!("  {description}")));
        if let Some(cost) = task.estimated_cost_usd {
            line.extend(TextLine::styled(&format!("  {}", dollars(cost)), DIM));
        }
        if task.depends_on.len() > 1 {
            let after: Vec<&str> = task.depends_on.iter().map(TaskId::as_str).collect();
            let after = self.language.with(Text::AfterTasks, &[&after.join(", ")]);
            line.extend(TextLine::styled(&format!("  {after}"), DIM));
        }
        if drawing == Drawing::Whole && !task.paths.is_empty() {
            let paths = visible(&task.paths.join(", "));
            let paths = self.language.with(CommandText::WritesPaths, &[&paths]);
            line.extend(TextLine::styled(&format!("  {paths}"), DIM));
        }
        let waits_for = self.view.waits_for(task);
        if !waits_for.is_empty() {
            let waits_for: Vec<&str> = waits_for.iter().map(TaskId::as_str).collect();
            let waits = [waits_for.join(", ")];
            let waits = self.language.with(CommandText::SameFiles, &[&waits[0]]);
            line.extend(TextLine::styled(&format!("  {waits}"), DIM));
        }
        let note = note.and_then(|note| match note {
            TaskNote::Writes => Some(self.language.text(Text::Writes)),
            TaskNote::Step(step) => Some(step.as_str()),
            TaskNote::WaitsForPerson => Some(self.language.text(Text::WaitsForYou)),
            TaskNote::Because(_) => None,
        });
        if let Some(note) = note {
            line.extend(TextLine::styled(&format!("  {note}"), DIM));
        }
        line
    }
}

/// A description in one line, and whether it goes on behind that.
fn brief(description: &str) -> (String, bool) {
    let whole = visible(description)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let cut: String = whole.chars().take(MAX_DESCRIPTION_CHARS).collect();
    let goes_on = cut.len() < whole.len();
    (cut, goes_on)
}

pub fn spinner(frame: usize) -> &'static str {
    SPINNER[frame % SPINNER.len()]
}

pub fn sign(status: TaskStatus, frame: usize) -> (&'static str, Style) {
    match status {
        TaskStatus::Pending => ("○", DIM),
        TaskStatus::Queued => ("◌", DIM),
        TaskStatus::Running => (spinner(frame), Style::colour(Colour::Cyan)),
        TaskStatus::Waiting => ("?", Style::colour(Colour::Magenta).bold()),
        TaskStatus::Completed => ("✓", Style::colour(Colour::Green)),
        TaskStatus::Failed => ("✗", Style::colour(Colour::Red)),
        TaskStatus::Skipped => ("–", DIM),
        TaskStatus::Cancelled => ("⊘", DIM),
    }
}

/// A starter agent without the prefix they all share.
pub fn short(agent: &AgentName) -> &str {
    let name = agent.as_str();
    name.strip_prefix("agent_")
        .filter(|rest| !rest.is_empty())
        .unwrap_or(name)
}

pub fn dollars(amount: f64) -> String {
    if amount > 0.0 && amount < 0.005 {
        "<$0.01".to_owned()
    } else {
        format!("${amount:.2}")
    }
}
