//! What keys do while somebody writes or decides.

use codelab_protocol::{AgentQuestion, TaskOrigin, Tool, arguments_digest};
use serde_json::json;

use super::*;
use crate::Language;
use crate::ui::diff::Before;
use crate::ui::state::{CompactRequest, LocalAsk};

fn call(id: &str) -> CallId {
    CallId::parse(id).unwrap()
}

fn approval(kind: &str) -> PendingAsk {
    let arguments = json!({ "command": "ls" });
    let digest = arguments_digest("execute_command", arguments.as_object().unwrap());
    let whole = json!({ "call_id": "c", "kind": kind, "tool_name": "execute_command", "arguments": arguments,
        "digest": digest, "reason": "r", "created_at": "2026-01-13T20:00:00Z", "expires_at": null, "timeout_seconds": 0 });
    PendingAsk::Approval(Box::new(serde_json::from_value(whole).unwrap()))
}

fn forged() -> PendingAsk {
    let PendingAsk::Approval(mut request) = approval("tool") else {
        unreachable!()
    };
    request
        .approval
        .arguments
        .insert("command".to_owned(), json!("rm -rf ."));
    PendingAsk::Approval(request)
}

fn local() -> PendingAsk {
    let (arguments, reason) = (serde_json::Map::new(), "no sandbox".to_owned());
    let session_id = codelab_protocol::SessionId::parse("s").unwrap();
    let (call_id, tool) = (call("c"), Tool::ExecuteCommand);
    PendingAsk::Local(LocalAsk {
        session_id,
        call_id,
        tool: tool.into(),
        arguments,
        reason,
        parts: Vec::new(),
    })
}

fn question() -> PendingAsk {
    let agent = codelab_protocol::AgentName::parse("agent_coder").unwrap();
    let options = vec!["SQLite".to_owned(), "PostgreSQL".to_owned()];
    PendingAsk::Question(AgentQuestion {
        call_id: call("q"),
        question: "Which?".to_owned(),
        server: None,
        requested_schema: None,
        options,
        agent,
        origin: TaskOrigin::default(),
    })
}

fn state(asks: Vec<PendingAsk>) -> ViewState {
    let mut state = ViewState::default();
    state.asks = asks;
    // A turn that waits.
    state
        .view
        .done(codelab_protocol::TurnStatus::AwaitingApproval);
    state
}

/// Presses a key once the choices could be read.
fn press(prompt: &mut Prompt, key: Key, state: &ViewState) -> Action {
    let now = Instant::now();
    prompt.drawn(state, now);
    prompt.press(key, state, now + READING_TIME)
}

/// Presses a key that nothing follows.
fn press_alone(prompt: &mut Prompt, key: Key, state: &ViewState) -> Action {
    let now = Instant::now();
    prompt.drawn(state, now);
    pressed_alone(prompt, key, state, now + READING_TIME)
}

fn pressed_alone(prompt: &mut Prompt, key: Key, state: &ViewState, at: Instant) -> Action {
    match prompt.press(key, state, at) {
        Action::Nothing => prompt.due(state, at + MEANT_TIME),
        action => action,
    }
}

fn typed(prompt: &mut Prompt, text: &str, state: &ViewState) -> Action {
    text.chars()
        .map(|c| press(prompt, Key::Char(c), state))
        .last()
        .unwrap_or(Action::Nothing)
}

fn decided(choice: MenuChoice) -> Action {
    Action::Decide {
        call: call("c"),
        choice,
    }
}

#[test]
fn one_letter_decides_and_only_where_it_may() {
    for (ask, letter, expected) in [
        (approval("tool"), 'y', decided(MenuChoice::Approve)),
        (approval("tool"), 'A', decided(MenuChoice::Always)),
        (approval("tool"), 'e', decided(MenuChoice::Edit)),
        (approval("tool"), 'v', decided(MenuChoice::ViewAll)),
        (approval("tool"), 'н', decided(MenuChoice::Approve)),
        (approval("tool"), 'Ф', decided(MenuChoice::Always)),
        (approval("tool"), 'у', decided(MenuChoice::Edit)),
        (approval("tool"), 'м', decided(MenuChoice::ViewAll)),
        (local(), 'т', decided(MenuChoice::Reject(None))),
        (approval("tool"), 'д', Action::Nothing),
        (approval("tool"), 'x', Action::Nothing),
        (approval("budget"), 'a', Action::Nothing),
        (approval("budget"), 'y', decided(MenuChoice::Approve)),
        (local(), 'y', decided(MenuChoice::Approve)),
        (local(), 'n', decided(MenuChoice::Reject(None))),
        (local(), 'e', Action::Nothing),
        (forged(), 'y', Action::Nothing),
        (forged(), 'a', Action::Nothing),
        (forged(), 'e', Action::Nothing),
    ] {
        let state = state(vec![ask.clone()]);
        assert_eq!(
            press_alone(&mut Prompt::default(), Key::Char(letter), &state),
            expected,
            "{letter} {ask:?}"
        );
    }
}

#[test]
fn a_text_that_begins_like_a_choice_decides_nothing() {
    let waiting = state(vec![approval("tool")]);
    for text in [
        "what is this?",
        "are you sure?",
        "yes, but why?",
        "A b",
        "н а что это?",
    ] {
        let (mut prompt, start) = (Prompt::default(), Instant::now());
        prompt.drawn(&waiting, start);
        let mut at = start + READING_TIME;
        for letter in text.chars() {
            assert_eq!(
                prompt.press(Key::Char(letter), &waiting, at),
                Action::Nothing
            );
            at += MEANT_TIME - Duration::from_millis(1);
            assert_eq!(prompt.due(&waiting, at), Action::Nothing, "{text}");
        }
        assert_eq!(prompt.due(&waiting, at + MEANT_TIME), Action::Nothing);
        assert_eq!(prompt.editor.text(), text);
    }
    // Enter says that the letter was meant. Escape takes it back.
    let later = Instant::now() + READING_TIME;
    for (key, expected) in [
        (Key::Enter, decided(MenuChoice::Approve)),
        (Key::Escape, Action::Nothing),
        (Key::Interrupt, Action::CancelTurn),
    ] {
        let mut prompt = Prompt::default();
        prompt.drawn(&waiting, later - READING_TIME);
        prompt.press(Key::Char('y'), &waiting, later);
        assert_eq!(prompt.press(key, &waiting, later), expected);
        assert_eq!(prompt.due(&waiting, later + MEANT_TIME), Action::Nothing);
    }
    // What was drawn anew meanwhile is not what the letter was about.
    let mut prompt = Prompt::default();
    prompt.drawn(&waiting, later - READING_TIME);
    prompt.press(Key::Char('y'), &waiting, later);
    prompt.not_drawn();
    prompt.drawn(&waiting, later);
    assert_eq!(prompt.due(&waiting, later + MEANT_TIME), Action::Nothing);
}

#[test]
fn a_rejection_asks_for_its_reason() {
    let state = state(vec![approval("tool")]);
    let mut prompt = Prompt::default();
    for (text, reason) in [("", None), ("  use tabs ", Some("use tabs".to_owned()))] {
        assert_eq!(press(&mut prompt, Key::Char('n'), &state), Action::Nothing);
        assert!(matches!(prompt.focus(&state), Focus::Reason(_)));
        typed(&mut prompt, text, &state);
        assert_eq!(
            press(&mut prompt, Key::Enter, &state),
            decided(MenuChoice::Reject(reason))
        );
    }
    press(&mut prompt, Key::Char('n'), &state);
    typed(&mut prompt, "because", &state);
    press(&mut prompt, Key::Escape, &state);
    assert!(
        matches!(prompt.focus(&state), Focus::Decide(_)) && prompt.editor.is_empty(),
        "Escape goes back"
    );
    press(&mut prompt, Key::Char('n'), &state);
    typed(&mut prompt, "half a reas", &state);
    prompt.settle(&ViewState::default());
    assert!(
        prompt.editor.is_empty(),
        "a reason for nothing is no message"
    );
}

#[test]
fn who_is_writing_does_not_decide_by_accident() {
    let idle = state(Vec::new());
    let waiting = state(vec![approval("tool")]);
    let mut prompt = Prompt::default();
    typed(&mut prompt, "please tr", &idle);
    assert_eq!(typed(&mut prompt, "y", &waiting), Action::Nothing);
    assert_eq!(prompt.editor.text(), "please try");
    press(&mut prompt, Key::Tab, &waiting);
    press(&mut prompt, Key::Escape, &waiting);
    assert_eq!(
        (prompt.editor.text(), prompt.focus(&waiting)),
        ("please try", Focus::Message),
        "Escape goes back"
    );
    press(&mut prompt, Key::Tab, &waiting);
    assert_eq!(
        press_alone(&mut prompt, Key::Char('y'), &waiting),
        decided(MenuChoice::Approve)
    );
    prompt.settle(&idle);
    assert_eq!(prompt.editor.text(), "please try", "the draft is back");
    let mut prompt = Prompt::default();
    for key in [Key::Paste("y\ny\n".to_owned()), Key::Enter, Key::NewLine] {
        assert_eq!(
            press(&mut prompt, key, &waiting),
            Action::Nothing,
            "a paste does not decide"
        );
    }
    assert!(prompt.editor.is_empty());
}

#[test]
fn a_key_decides_only_once_the_choices_could_be_read() {
    let (start, instant) = (Instant::now(), Duration::from_millis(1));
    let first = state(vec![approval("tool")]);
    let PendingAsk::Local(other) = local() else {
        unreachable!()
    };
    let second = state(vec![PendingAsk::Local(LocalAsk {
        call_id: call("d"),
        ..other
    })]);
    for (drawn, pressed_at, decides) in [
        (None, start + READING_TIME, false),
        (Some(&first), start, false),
        (Some(&first), start + READING_TIME - instant, false),
        (Some(&first), start + READING_TIME, true),
        (Some(&second), start + READING_TIME, false),
    ] {
        let mut prompt = Prompt::default();
        if let Some(drawn) = drawn {
            prompt.drawn(drawn, start);
            prompt.drawn(drawn, start + instant);
        }
        assert_eq!(prompt.is_deciding(&first, pressed_at), decides);
        let action = pressed_alone(&mut prompt, Key::Char('y'), &first, pressed_at);
        let expected = if decides {
            (decided(MenuChoice::Approve), "")
        } else {
            (Action::Nothing, "y")
        };
        assert_eq!(
            (action, prompt.editor.text()),
            expected,
            "what does not decide is written"
        );
    }
}

#[test]
fn what_is_written_before_the_choices_are_read_is_kept() {
    let (start, idle, waiting) = (
        Instant::now(),
        state(Vec::new()),
        state(vec![approval("tool")]),
    );
    let mut prompt = Prompt::default();
    typed(&mut prompt, "please tr", &idle);
    prompt.press(Key::Tab, &waiting, start);
    prompt.drawn(&waiting, start);
    assert_eq!(
        prompt.press(Key::Char('y'), &waiting, start),
        Action::Nothing
    );
    assert_eq!(prompt.editor.text(), "please try", "the draft goes on");
    let mut prompt = Prompt::default();
    assert_eq!(
        prompt.press(Key::Paste("yes".to_owned()), &waiting, start),
        Action::Nothing
    );
    assert_eq!(prompt.editor.text(), "yes");
    // Choices that went and came back have to be read again.
    prompt.drawn(&waiting, start);
    prompt.press(Key::Tab, &waiting, start);
    prompt.drawn(&waiting, start + READING_TIME);
    assert!(!prompt.is_deciding(&waiting, start + READING_TIME));
    assert!(prompt.is_deciding(&waiting, start + READING_TIME * 2));
}

#[test]
fn a_question_is_answered_by_text_or_number() {
    let state = state(vec![question()]);
    for (text, answer) in [("2", "PostgreSQL"), ("3", "3"), ("neither", "neither")] {
        let mut prompt = Prompt::default();
        typed(&mut prompt, text, &state);
        let expected = Action::Answer {
            call: call("q"),
            text: answer.to_owned(),
        };
        assert_eq!(press(&mut prompt, Key::Enter, &state), expected);
    }
    let mut prompt = Prompt::default();
    typed(&mut prompt, "/cancel", &state);
    assert_eq!(
        press(&mut prompt, Key::Enter, &state),
        Action::Command(SlashCommand::Cancel)
    );
}

#[test]
fn a_question_of_a_server_can_be_declined() {
    let PendingAsk::Question(mut asked) = question() else {
        panic!("no question");
    };
    asked.server = Some(codelab_protocol::McpServerName::parse("git").unwrap());
    let state = state(vec![PendingAsk::Question(asked)]);
    let mut prompt = Prompt::default();
    typed(&mut prompt, "/decline", &state);
    let expected = Action::Answer {
        call: call("q"),
        text: "/decline".to_owned(),
    };
    assert_eq!(press(&mut prompt, Key::Enter, &state), expected);
}

#[test]
fn ctrl_c_cancels_first_and_leaves_second() {
    let (working, idle) = (state(Vec::new()), ViewState::default());
    let mut prompt = Prompt::default();
    typed(&mut prompt, "draft", &working);
    assert_eq!(
        press(&mut prompt, Key::Interrupt, &working),
        Action::Nothing,
        "what is written goes first"
    );
    assert!(prompt.editor.is_empty() && !prompt.is_leaving);
    assert_eq!(
        press(&mut prompt, Key::Interrupt, &working),
        Action::CancelTurn
    );
    assert!(prompt.is_leaving);
    typed(&mut prompt, "s", &idle);
    assert!(!prompt.is_leaving, "the hint ends with the next letter");
    // A draft that comes back while the hint stands is not lost either.
    prompt.is_leaving = true;
    assert_eq!(
        press(&mut prompt, Key::Interrupt, &idle),
        Action::Nothing,
        "idle: it clears the line"
    );
    assert!(prompt.editor.is_empty());
    assert_eq!(press(&mut prompt, Key::Interrupt, &idle), Action::Nothing);
    assert_eq!(press(&mut prompt, Key::Interrupt, &idle), Action::Leave);
    assert_eq!(
        press(&mut Prompt::default(), Key::End, &idle),
        Action::Leave
    );
    let mut prompt = Prompt::default();
    press(&mut prompt, Key::Interrupt, &idle);
    prompt.line("go on", &idle);
    assert_eq!(
        press(&mut prompt, Key::Interrupt, &working),
        Action::CancelTurn,
        "a line between two starts anew"
    );
    let mut asked = ViewState::new(Language::default());
    asked.compact_request = CompactRequest::Asked;
    assert_eq!(
        press(&mut Prompt::default(), Key::Interrupt, &asked),
        Action::CancelTurn,
        "a summary that no event tells of yet"
    );
}

#[test]
fn several_lines_are_one_message() {
    let idle = ViewState::default();
    let mut prompt = Prompt::default();
    typed(&mut prompt, "one\\", &idle);
    assert_eq!(press(&mut prompt, Key::Enter, &idle), Action::Nothing);
    typed(&mut prompt, "two", &idle);
    press(&mut prompt, Key::NewLine, &idle);
    press(&mut prompt, Key::Paste("three\r\nfour".to_owned()), &idle);
    assert_eq!(
        press(&mut prompt, Key::Enter, &idle),
        Action::Send("one\ntwo\nthree\nfour".to_owned())
    );
    press(&mut prompt, Key::Up, &idle);
    assert_eq!(prompt.editor.text(), "one\ntwo\nthree\nfour");
}

#[test]
fn a_line_decides_where_there_are_no_keys() {
    let waiting = state(vec![approval("tool")]);
    for (line, expected) in [
        ("y", decided(MenuChoice::Approve)),
        ("yes", decided(MenuChoice::Approve)),
        ("Так", decided(MenuChoice::Approve)),
        ("нет", decided(MenuChoice::Reject(None))),
        ("always", decided(MenuChoice::Always)),
        ("n", decided(MenuChoice::Reject(None))),
        (
            "reject use tabs",
            decided(MenuChoice::Reject(Some("use tabs".to_owned()))),
        ),
        ("add a test", Action::Nothing),
        ("you should look at it again", Action::Nothing),
        ("", Action::Nothing),
        ("/cancel", Action::Command(SlashCommand::Cancel)),
    ] {
        assert_eq!(Prompt::default().line(line, &waiting), expected, "{line:?}");
    }
    assert_eq!(
        Prompt::default().line("hello", &ViewState::default()),
        Action::Send("hello".to_owned())
    );
}

#[test]
fn what_changes_while_it_is_shown_is_read_again() {
    let now = Instant::now();
    let mut prompt = Prompt::default();
    let mut state = state(vec![approval("tool")]);
    prompt.drawn(&state, now);
    let later = now + READING_TIME;
    assert!(prompt.is_deciding(&state, later) && prompt.is_shown(&state));
    state.reread(&call("c"), Before::Text("another".to_owned()));
    assert!(
        !prompt.is_deciding(&state, later),
        "the file is another one"
    );
    prompt.drawn(&state, later);
    assert!(!prompt.is_deciding(&state, later));
    assert!(prompt.is_deciding(&state, later + READING_TIME));
    state.asks = vec![forged()];
    assert!(
        !prompt.is_deciding(&state, later + READING_TIME),
        "so are the arguments"
    );
}

#[test]
fn tab_shows_the_next_of_what_waits() {
    for asks in [
        vec![question(), approval("tool")],
        vec![approval("tool"), question()],
    ] {
        let mut waiting = state(asks.clone());
        let mut prompt = Prompt::default();
        assert_eq!(press(&mut prompt, Key::Tab, &waiting), Action::NextAsk);
        waiting.turn_to_next();
        assert_eq!(waiting.asks[0].call_id(), asks[1].call_id());
        let alone = state(asks[..1].to_vec());
        assert_eq!(press(&mut prompt, Key::Tab, &alone), Action::Nothing);
    }
}

#[test]
fn what_was_being_written_never_becomes_the_answer_to_a_question() {
    let idle = state(Vec::new());
    for asks in [vec![question()], vec![approval("tool"), question()]] {
        let asking = state(asks);
        let mut prompt = Prompt::default();
        typed(&mut prompt, "my pass", &idle);
        typed(&mut prompt, "word", &asking);
        assert_eq!(press(&mut prompt, Key::Enter, &asking), Action::Nothing);
        assert!(prompt.editor.is_empty(), "it is put aside");
        prompt.settle(&idle);
        assert_eq!(prompt.editor.text(), "my password", "and comes back");
    }
    let asking = state(vec![question()]);
    let mut prompt = Prompt::default();
    typed(&mut prompt, "draft", &idle);
    press(&mut prompt, Key::Tab, &asking);
    typed(&mut prompt, "4", &asking);
    let answer = Action::Answer {
        call: call("q"),
        text: "4".to_owned(),
    };
    assert_eq!(press(&mut prompt, Key::Enter, &asking), answer);
}

#[test]
fn only_a_line_that_was_typed_runs_as_a_command() {
    let run = |command: &str| Action::Run(command.to_owned());
    let send = |text: &str| Action::Send(text.to_owned());
    let typed = |text: &str| text.chars().map(Key::Char).collect::<Vec<_>>();
    let pasted = |text: &str| vec![Key::Paste(text.to_owned())];
    let answer = |text: &str| Action::Answer {
        call: call("q"),
        text: text.to_owned(),
    };
    for (keys, expected, while_asked) in [
        (typed("!ls -l "), run("ls -l"), run("ls -l")),
        (typed(" !ls"), send(" !ls"), answer(" !ls")),
        (typed("!"), Action::Nothing, answer("!")),
        (pasted("!rm -r ."), send(" !rm -r ."), answer(" !rm -r .")),
        (pasted("!a\nb"), send(" !a\nb"), answer(" !a\nb")),
        (
            [typed("!cat "), pasted("a.rs")].concat(),
            run("cat a.rs"),
            run("cat a.rs"),
        ),
        (
            [typed("!cat "), pasted("a\nrm b")].concat(),
            send("!cat a\nrm b"),
            answer("!cat a\nrm b"),
        ),
        (
            [typed("x"), vec![Key::Go(Motion::LineStart)], pasted("!rm ")].concat(),
            send(" !rm x"),
            answer(" !rm x"),
        ),
    ] {
        for (state, expected) in [
            (state(Vec::new()), expected),
            (state(vec![question()]), while_asked),
        ] {
            let mut prompt = Prompt::default();
            for key in keys.clone() {
                press(&mut prompt, key, &state);
            }
            assert_eq!(press(&mut prompt, Key::Enter, &state), expected, "{keys:?}");
            // Nor does the history make a command of it.
            press(&mut prompt, Key::Up, &state);
            assert_eq!(press(&mut prompt, Key::Enter, &state), expected, "{keys:?}");
        }
    }
    let mut prompt = Prompt::default();
    assert_eq!(
        prompt.line("!rm -r .", &state(Vec::new())),
        send("!rm -r .")
    );
    assert_eq!(prompt.line("!rm", &state(vec![question()])), answer("!rm"));
    // A line of a script is whole. What would go on in the next one hides what waits.
    assert_eq!(prompt.line("a\\", &state(Vec::new())), send("a\\"));
    assert!(prompt.editor.is_empty());
}

#[test]
fn what_had_no_room_decides_nothing() {
    let state = state(vec![approval("tool")]);
    let (mut prompt, now) = (Prompt::default(), Instant::now());
    prompt.drawn(&state, now);
    assert!(prompt.is_deciding(&state, now + READING_TIME) && prompt.is_shown(&state));
    prompt.not_drawn();
    assert!(!prompt.is_deciding(&state, now + READING_TIME) && !prompt.is_shown(&state));
}

#[test]
fn no_line_is_read_for_what_was_not_printed_like_this() {
    let mut state = state(vec![local()]);
    let (mut prompt, now) = (Prompt::default(), Instant::now());
    assert!(!prompt.is_shown(&state));
    prompt.drawn(&state, now);
    assert!(prompt.is_shown(&state));
    state.reread(&call("c"), Before::Text("another".to_owned()));
    assert!(!prompt.is_shown(&state), "the file has changed");
    prompt.drawn(&state, now);
    state.asks.insert(0, approval("tool"));
    assert!(!prompt.is_shown(&state), "something else is first");
}

#[test]
fn alt_s_says_it_to_the_agents_at_work() {
    let (mut prompt, state) = (Prompt::default(), ViewState::new(Language::default()));
    let now = Instant::now();
    assert_eq!(prompt.press(Key::Steer, &state, now), Action::Nothing);
    for letter in "tabs".chars() {
        prompt.press(Key::Char(letter), &state, now);
    }
    let steered = prompt.press(Key::Steer, &state, now);
    assert_eq!(steered, Action::Steer("tabs".to_owned()));
    assert!(prompt.editor.is_empty());
}
