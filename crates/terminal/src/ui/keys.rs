//! Keys of a real terminal as the keys of the prompt.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::editor::Motion;
use super::prompt::Key;

/// What a terminal tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalInput {
    Key(Key),
    Resized,
}

pub fn input(event: Event) -> Option<TerminalInput> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            self::key(key).map(TerminalInput::Key)
        }
        Event::Paste(text) => Some(TerminalInput::Key(Key::Paste(text))),
        Event::Resize(..) => Some(TerminalInput::Resized),
        _ => None,
    }
}

fn key(event: KeyEvent) -> Option<Key> {
    let has = |modifier| event.modifiers.contains(modifier);
    let (control, alt, shift) = (
        has(KeyModifiers::CONTROL),
        has(KeyModifiers::ALT),
        has(KeyModifiers::SHIFT),
    );
    Some(match event.code {
        KeyCode::Enter if alt || shift || control => Key::NewLine,
        KeyCode::Enter => Key::Enter,
        KeyCode::Tab => Key::Tab,
        KeyCode::Esc => Key::Escape,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left if control || alt => Key::Go(Motion::WordLeft),
        KeyCode::Right if control || alt => Key::Go(Motion::WordRight),
        KeyCode::Left => Key::Go(Motion::Left),
        KeyCode::Right => Key::Go(Motion::Right),
        KeyCode::Home => Key::Go(Motion::LineStart),
        KeyCode::End => Key::Go(Motion::LineEnd),
        KeyCode::Backspace if control || alt => Key::Delete(Motion::WordLeft),
        KeyCode::Backspace => Key::Delete(Motion::Left),
        KeyCode::Delete => Key::Delete(Motion::Right),
        KeyCode::Char(letter) if control => match letter.to_ascii_lowercase() {
            'c' => Key::Interrupt,
            'd' => Key::End,
            'j' => Key::NewLine,
            'l' => Key::Redraw,
            'a' => Key::Go(Motion::LineStart),
            'e' => Key::Go(Motion::LineEnd),
            'b' => Key::Go(Motion::Left),
            'f' => Key::Go(Motion::Right),
            'p' => Key::Up,
            'n' => Key::Down,
            'h' => Key::Delete(Motion::Left),
            'k' => Key::Delete(Motion::LineEnd),
            'u' => Key::Delete(Motion::LineStart),
            'w' => Key::Delete(Motion::WordLeft),
            _ => return None,
        },
        KeyCode::Char('b') if alt => Key::Go(Motion::WordLeft),
        KeyCode::Char('f') if alt => Key::Go(Motion::WordRight),
        KeyCode::Char('d') if alt => Key::Delete(Motion::WordRight),
        // The same key of a Russian or Ukrainian keyboard.
        KeyCode::Char('s' | 'S' | 'ы' | 'Ы' | 'і' | 'І') if alt => Key::Steer,
        KeyCode::Char(_) if alt => return None,
        KeyCode::Char(letter) => Key::Char(letter),
        _ => return None,
    })
}
