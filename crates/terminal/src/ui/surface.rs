//! Where the chat is shown and where it hears the person: a terminal with live rows and keys, or
//! plain lines both ways.

use std::io::{self, IsTerminal as _};

use crossterm::event::EventStream;
use futures_util::StreamExt as _;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};

use super::files::{self, EditError};
use super::keys::{self, TerminalInput};
use super::render::{Drawn, Live};
use super::screen::{self, Ink, Screen};
use super::text::TextLine;

/// Lines are broken here where no screen says where.
const PLAIN_COLUMNS: usize = 100;

pub enum Surface {
    Terminal {
        screen: Screen,
        keys: Option<EventStream>,
    },
    Plain {
        lines: Option<Lines<BufReader<Stdin>>>,
        /// What waits and its choices, as they were printed last.
        told: Option<(Vec<TextLine>, String)>,
    },
}

/// What became of what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskShown {
    /// It was printed with its choices, below which nothing is drawn again.
    pub is_told: bool,
    /// A person can decide about what they see.
    pub is_readable: bool,
}

/// What the person did.
#[derive(Debug)]
pub enum PersonEvent {
    Input(TerminalInput),
    Line(String),
    /// Nothing more will come.
    End,
}

/// Both ends are a terminal that understands more than text.
pub fn has_screen() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

impl Surface {
    /// A terminal only where both ends are one that understands more than text.
    pub fn open() -> io::Result<Self> {
        if has_screen() {
            let screen = Screen::open(Ink::of_environment(true))?;
            return Ok(Self::Terminal {
                screen,
                keys: Some(EventStream::new()),
            });
        }
        Ok(Self::Plain {
            lines: Some(BufReader::new(tokio::io::stdin()).lines()),
            told: None,
        })
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    pub fn width(&self) -> usize {
        match self {
            Self::Terminal { .. } => Screen::size().0.saturating_sub(1),
            Self::Plain { .. } => PLAIN_COLUMNS,
        }
    }

    /// Dropping the future loses nothing.
    pub async fn hear(&mut self) -> PersonEvent {
        match self {
            Self::Terminal { keys, .. } => loop {
                let Some(stream) = keys else {
                    return std::future::pending().await;
                };
                match stream.next().await {
                    Some(Ok(event)) => match keys::input(event) {
                        Some(input) => return PersonEvent::Input(input),
                        None => continue,
                    },
                    Some(Err(_)) | None => {
                        *keys = None;
                        return PersonEvent::End;
                    }
                }
            },
            Self::Plain { lines, .. } => {
                let Some(stream) = lines else {
                    return std::future::pending().await;
                };
                match stream.next_line().await {
                    Ok(Some(line)) => PersonEvent::Line(line),
                    Ok(None) | Err(_) => {
                        *lines = None;
                        PersonEvent::End
                    }
                }
            }
        }
    }

    pub fn show(&mut self, finished: &[TextLine], live: &Live<'_>) -> io::Result<AskShown> {
        match self {
            Self::Terminal { screen, .. } => {
                let (width, height) = Screen::size();
                let drawn = live.draw(width, height);
                screen.update(finished, &drawn)?;
                Ok(AskShown {
                    is_told: false,
                    is_readable: drawn.is_readable,
                })
            }
            Self::Plain { told, .. } => {
                screen::print_plain(finished)?;
                // Without live rows it is told once, and again when it changed or when something
                // else was printed below it.
                let waits = live.choice().map(|choice| (live.card_lines(), choice));
                let is_old = waits == *told && finished.is_empty();
                let new = waits.as_ref().filter(|_| !is_old);
                if let Some((card, choice)) = new {
                    screen::print_plain(card)?;
                    screen::print_plain(&[TextLine::plain(choice)])?;
                }
                let is_told = new.is_some();
                *told = waits;
                Ok(AskShown {
                    is_told,
                    is_readable: true,
                })
            }
        }
    }

    /// The last lines, below which the shell goes on.
    pub fn close(mut self, finished: &[TextLine]) -> io::Result<()> {
        match &mut self {
            Self::Terminal { screen, .. } => screen.update(
                finished,
                &Drawn {
                    rows: Vec::new(),
                    cursor_row: 0,
                    cursor_column: 0,
                    is_readable: true,
                },
            ),
            Self::Plain { .. } => screen::print_plain(finished),
        }
    }

    /// Lets the person change a text in their editor, which has the terminal for that time.
    pub async fn edit(&mut self, text: &str, name: &str) -> Result<String, EditError> {
        let Self::Terminal { screen, keys } = self else {
            return Err(EditError::NoTerminal);
        };
        // While it lives it reads the keys that are meant for the editor.
        *keys = None;
        screen.suspend()?;
        let edited = files::edited(text, name).await;
        screen.resume()?;
        *keys = Some(EventStream::new());
        edited
    }
}
