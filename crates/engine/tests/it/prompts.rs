//! What a model is sent, read from the request itself.

mod context;
mod formatting;
mod properties;
mod report;
mod trimming;

use codelab_engine::{
    Agent, AgentMode, Briefing, History, Input, Instructions, Lane, Locale, NamedTools,
    PromptLimits, PromptReport, Region, Session, Team, UserMessage, Zone, step_request,
};
use codelab_protocol::{
    AgentName, CallId, CallerContext, Message, MessageId, ModelMessage, ModelRequest, Role,
    Timestamp, ToolCall, UserId,
};
use serde_json::Value;

use super::kit::{Stage, session};

/// 2026-01-13T20:00:00Z
const NOW: Timestamp = Timestamp::from_millis(1_768_334_400_000);
const MINUTE_MS: i64 = 60_000;

/// One step of an agent whose prompt is `template`, and what it is made of.
struct Case {
    template: String,
    caller: CallerContext,
    region: Region,
    limits: PromptLimits,
    window: Option<u64>,
    earlier: Vec<Message>,
    current: Vec<Message>,
}

/// What was sent.
struct Sent {
    request: ModelRequest,
    report: PromptReport,
    /// What the template became, without what stands after it.
    prompt: String,
}

impl Case {
    /// The messages are a minute apart, the last one a minute ago.
    fn new(template: &str, mut earlier: Vec<Message>) -> Self {
        let count = earlier.len() as i64;
        for (slot, message) in earlier.iter_mut().enumerate() {
            message.timestamp = NOW.plus_millis((slot as i64 - count) * MINUTE_MS);
        }
        Self {
            template: template.to_owned(),
            caller: CallerContext::default(),
            region: Region::default(),
            limits: PromptLimits::default(),
            window: None,
            earlier,
            current: vec![user("the current request")],
        }
    }

    fn send(&self) -> Sent {
        const END: &str = "<end of the template>";
        let mut stage = Stage::new(AgentMode::Multi);
        let session = self.session(&mut stage);
        let text = format!(
            "---\nname: coder\ndescription: d\ntools: [read_file]\n---\n{}{END}",
            self.template
        );
        let agent = Agent::parse(&text).unwrap();
        let (request, report) = step_request(&Briefing {
            named_tools: &NamedTools::default(),
            instructions: &Instructions::default(),
            session: &session,
            lane: Lane::OWN,
            agent: &agent,
            team: &Team::of_project(vec![agent.clone()]),
            default_model: "model",
            session_prompt: "",
            history: History {
                earlier: &self.earlier,
                current: &self.current,
            },
            recalled: &[],
            limits: &self.limits,
            window: self.window,
            region: &self.region,
            now: NOW,
        });
        let ModelMessage::System { content } = &request.messages[0] else {
            panic!("no prompt")
        };
        let prompt = content.split_once(END).unwrap().0.to_owned();
        Sent {
            prompt,
            request,
            report,
        }
    }

    fn session(&self, stage: &mut Stage) -> Session {
        let mut session = session();
        let message = UserMessage {
            text: "the current request".to_owned(),
            agent: None,
            client_message_id: None,
            caller: self.caller.clone(),
            attachments: Vec::new(),
            delivery: codelab_protocol::Delivery::Queue,
        };
        session
            .apply(Input::UserMessage(message), &mut stage.world())
            .unwrap();
        session
    }
}

impl Sent {
    /// The messages after the prompt, each as `role: content`, calls as `role+call`.
    fn messages(&self) -> Vec<String> {
        let shown = |message: &ModelMessage| match message {
            ModelMessage::System { content } => format!("system: {content}"),
            ModelMessage::User { content, .. } => format!("user: {content}"),
            ModelMessage::Assistant {
                content,
                tool_calls,
                ..
            } => {
                let calls: String = tool_calls
                    .iter()
                    .map(|call| format!("+{}", call.call_id))
                    .collect();
                format!("assistant{calls}: {content}")
            }
            ModelMessage::Tool {
                call_id, content, ..
            } => format!("tool={call_id}: {content}"),
        };
        self.request.messages[1..].iter().map(shown).collect()
    }

    /// The same without the current turn's.
    fn earlier(&self) -> Vec<String> {
        let mut messages = self.messages();
        assert_eq!(
            messages.pop().as_deref(),
            Some("user: the current request"),
            "what is said now is always sent"
        );
        messages
    }
}

fn message(role: Role, content: &str) -> Message {
    Message::new(
        MessageId::parse("m").unwrap(),
        role,
        content.to_owned(),
        NOW,
    )
}

fn user(content: &str) -> Message {
    message(Role::User, content)
}

fn assistant(content: &str) -> Message {
    message(Role::Assistant, content)
}

fn from_agent(agent: &str, content: &str) -> Message {
    Message {
        agent_id: Some(AgentName::parse(agent).unwrap()),
        ..assistant(content)
    }
}

fn calls(content: &str, calls: &[(&str, &str, Value)]) -> Message {
    let call = |(id, name, arguments): &(&str, &str, Value)| ToolCall {
        call_id: CallId::parse(id).unwrap(),
        name: (*name).to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
    };
    Message {
        tool_calls: calls.iter().map(call).collect(),
        ..assistant(content)
    }
}

fn result(call_id: &str, tool: &str, content: &str) -> Message {
    let tool_call_id = Some(CallId::parse(call_id).unwrap());
    Message {
        tool_call_id,
        name: Some(tool.to_owned()),
        ..message(Role::Tool, content)
    }
}

fn caller(user_id: Option<i64>, timezone: &str, household_id: &str, locale: &str) -> CallerContext {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    CallerContext {
        user_id: user_id.and_then(UserId::new),
        timezone: given(timezone),
        household_id: given(household_id),
        locale: given(locale),
    }
}

fn region(locale: Locale, zone: &str) -> Region {
    Region {
        locale,
        zone: Zone::named(zone).unwrap(),
    }
}

/// The estimate: four characters are a token.
fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}
