//! What a workspace brings: for scripts, and what prompts have of it.

use codelab_engine::{
    Briefing, Budget, Effect, History, Input, InstructionFile, Instructions, Lane, NamedTools,
    PromptLimits, Region, Session, Skill, UserMessage, step_request, tell_planner,
};
use codelab_protocol::{
    AgentName, CallerContext, ClientId, Digest, ModelMessage, ModelOutput, ModelRequest,
    RawToolCall,
};
use serde_json::json;

use super::kit::{Stage, project_session};

/// `AGENTS.md=Use_tabs deploy!Ships_it`: files with `=`, skills with `!`.
pub fn brought(text: &str) -> Instructions {
    let words = || text.split_whitespace();
    let files = words().filter_map(|word| {
        let (path, text) = word.split_once('=')?;
        let text = text.replace('_', " ");
        Some(InstructionFile {
            path: path.to_owned(),
            digest: Digest::of_bytes(text.as_bytes()),
            text: text.into(),
        })
    });
    let skills = words().filter_map(|word| {
        let (name, description) = word.split_once('!')?;
        let text = format!("---\nallowed-tools: execute_command\n---\nHow to {name}");
        Some(Skill {
            name: name.to_owned(),
            description: description.replace('_', " "),
            folder: format!(".agents/skills/{name}"),
            digest: Digest::of_bytes(text.as_bytes()),
            text: text.into(),
        })
    });
    Instructions::new("/srv/shop", files, skills)
}

fn coder() -> AgentName {
    AgentName::parse("agent_coder").unwrap()
}

fn asked(stage: &mut Stage, session: &mut Session) {
    let message = UserMessage {
        text: "go".to_owned(),
        agent: Some(coder()),
        client_message_id: None,
        caller: CallerContext::default(),
        attachments: Vec::new(),
        delivery: codelab_protocol::Delivery::Queue,
    };
    stage.apply(session, Input::UserMessage(message)).unwrap();
}

/// The agent reads a file, and gets it.
fn reads(stage: &mut Stage, session: &mut Session, path: &str) {
    let call = RawToolCall {
        name: "read_file".to_owned(),
        arguments: json!({ "path": path }).to_string(),
    };
    let output = ModelOutput {
        tool_calls: vec![call],
        ..ModelOutput::default()
    };
    let call = session.model_calls()[0].0;
    let finished = Input::ModelFinished {
        call,
        outcome: Ok(output),
        recalled: Vec::new(),
    };
    let applied = stage.apply(session, finished).unwrap();
    let opened = applied.effects.iter().find_map(|effect| match effect {
        Effect::CallOpened { call_id, .. } => Some(call_id.clone()),
        _ => None,
    });
    let call_id = opened.unwrap();
    let client = ClientId::parse("laptop").unwrap();
    let claim = Input::Claim {
        call_id: call_id.clone(),
        client_id: client.clone(),
        bound_is_gone: false,
        version: None,
        known: None,
    };
    stage.apply(session, claim).unwrap();
    let result = Input::ToolResult {
        call_id,
        result: json!({"success": true, "content": "x"}),
        client: Some(client),
        known: None,
        images: Vec::new(),
    };
    stage.apply(session, result).unwrap();
}

fn prompt(stage: &Stage, session: &Session) -> ModelRequest {
    let (request, _) = step_request(&Briefing {
        session,
        lane: Lane::OWN,
        agent: stage.team.get(&coder()).unwrap(),
        team: &stage.team,
        default_model: "model",
        session_prompt: "",
        history: History::default(),
        recalled: &["likes tests".to_owned()],
        named_tools: &NamedTools::default(),
        instructions: &stage.space.instructions,
        limits: &PromptLimits::default(),
        window: None,
        region: &Region::default(),
        now: stage.now,
    });
    request
}

fn system(request: &ModelRequest) -> &str {
    match &request.messages[0] {
        ModelMessage::System { content } => content,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nested_instructions_are_told_once_something_beneath_was_touched() {
    let mut stage = Stage::project();
    stage.space.instructions = brought(
        "AGENTS.md=Use_{{userId}}_tabs web/AGENTS.md=Use_spaces api/AGENTS.md=Elsewhere deploy!Ships_it",
    )
    .into();
    let mut session = project_session(Budget::default());
    asked(&mut stage, &mut session);
    let first = prompt(&stage, &session);
    let told = system(&first);
    assert!(
        told.contains("Use {{userId}} tabs"),
        "a text is no template: {told}"
    );
    assert!(told.contains("path=\"AGENTS.md\" sha256=\"") && !told.contains("Use spaces"));
    assert!(told.contains("- deploy: Ships it") && !told.contains("How to deploy"));
    let names: Vec<&str> = first.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(names.contains(&"use_skill"), "{names:?}");

    reads(&mut stage, &mut session, "web/src/app.ts");
    let second = prompt(&stage, &session);
    let (root, nested) = (
        system(&second).find("Use {{userId}} tabs").unwrap(),
        system(&second).find("Use spaces").unwrap(),
    );
    assert!(root < nested, "the nearest stands last");
    assert!(!system(&second).contains("Elsewhere"));
    // It is part of the state: a server that takes over tells the same.
    let stored = serde_json::to_string(&session).unwrap();
    let restored: Session = serde_json::from_str(&stored).unwrap();
    assert_eq!(system(&prompt(&stage, &restored)), system(&second));

    // Two turns in a row begin with the same bytes.
    reads(&mut stage, &mut session, "web/src/other.ts");
    assert_eq!(system(&prompt(&stage, &session)), system(&second));

    // What the workspace has no longer is not told.
    stage.space.instructions = brought("").into();
    let last = prompt(&stage, &session);
    assert!(!system(&last).contains("Instructions of the workspace"));
    assert!(last.tools.iter().all(|tool| tool.name != "use_skill"));
}

#[test]
fn the_planner_is_told_of_the_root_alone() {
    let stage = Stage::project();
    let mut request = prompt(&stage, &project_session(Budget::default()));
    let before = system(&request).to_owned();
    tell_planner(&mut request, &brought(""));
    assert_eq!(system(&request), before);
    tell_planner(
        &mut request,
        &brought("AGENTS.md=Use_tabs web/AGENTS.md=Use_spaces deploy!Ships_it"),
    );
    let told = system(&request);
    assert!(
        told.starts_with(&before) && told.contains("Use tabs"),
        "{told}"
    );
    assert!(!told.contains("Use spaces") && !told.contains("deploy"));
}
