//! What a project trusts of MCP servers, and what follows for the tools that are there now. Pure:
//! nothing here waits or stores.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use codelab_engine::{NamedTool, NamedTools};
use codelab_protocol::{
    ClientId, Digest, McpCall, McpPermission, McpPlace, McpServerName, McpStatus, McpToolId,
    McpToolState, ToolDefinition, ToolSpec, offered_name,
};
use codelab_store::{AcceptedDefinition, McpPermissionRow, NewDefinition};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Accepted definitions of one project. Further tools are off.
const MAX_ACCEPTED: usize = 4096;
/// All accepted definitions of one project together.
const MAX_ACCEPTED_BYTES: u64 = 8 * 1024 * 1024;
/// A longer name is not a tool's name: databases index it.
const MAX_TOOL_NAME_BYTES: usize = 512;
/// How much of a tool's description people see at a call.
const SHOWN_DESCRIPTION_CHARS: usize = 1000;
const MAX_HINTS: usize = 16;

/// A server as it is now, whoever runs it.
#[derive(Debug, Clone)]
pub(super) struct SeenServer {
    pub name: McpServerName,
    pub runs_at: McpPlace,
    /// The client that runs it.
    pub client: Option<ClientId>,
    pub status: McpStatus,
    pub error: Option<String>,
    pub tools: Arc<[SeenTool]>,
    /// The project has a server of its own with this name.
    pub is_shadowed: bool,
}

/// A tool as its server describes it now.
#[derive(Debug)]
pub(crate) struct SeenTool {
    pub definition: ToolDefinition,
    pub digest: Digest,
    pub offered_as: String,
}

impl SeenTool {
    /// Of one server. Names that no database takes are left out, and counted.
    pub fn all(server: &McpServerName, tools: &[ToolDefinition]) -> (Arc<[Self]>, usize) {
        let fits = |tool: &&ToolDefinition| tool.name.len() <= MAX_TOOL_NAME_BYTES;
        let seen: Arc<[Self]> = tools
            .iter()
            .filter(fits)
            .map(|tool| Self {
                digest: tool.digest(),
                offered_as: offered_name(server, &tool.name),
                definition: tool.clone(),
            })
            .collect();
        let left_out = tools.len() - seen.len();
        (seen, left_out)
    }
}

type ToolKey = (McpServerName, String);

/// What was accepted and decided, as the database has it.
#[derive(Default)]
pub(super) struct Trust {
    accepted: HashMap<ToolKey, Vec<Digest>>,
    permissions: HashMap<ToolKey, McpPermission>,
    definitions: usize,
    bytes: u64,
}

/// Whether a tool can be offered, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    On,
    /// Nobody saw the tool before. It is on once its definition is stored as the accepted one.
    New,
    Changed,
    /// New, but the project has accepted as many definitions as it can.
    Full,
    Collides,
    Forbidden,
    /// The project's own server of the same name counts instead.
    Shadowed,
}

impl Trust {
    pub fn new(accepted: Vec<AcceptedDefinition>, permissions: Vec<McpPermissionRow>) -> Self {
        let mut trust = Self {
            definitions: accepted.len(),
            bytes: accepted.iter().map(|row| row.bytes).sum(),
            ..Self::default()
        };
        for row in accepted {
            let digests = trust.accepted.entry((row.server, row.tool)).or_default();
            digests.push(row.digest);
        }
        let permissions = permissions.into_iter();
        trust.permissions = permissions
            .map(|row| ((row.server, row.tool), row.permission))
            .collect();
        trust
    }

    pub fn permission(&self, server: &McpServerName, tool: &str) -> McpPermission {
        let key = (server.clone(), tool.to_owned());
        self.permissions.get(&key).copied().unwrap_or_default()
    }

    pub fn knows(&self, server: &McpServerName, tool: &str) -> bool {
        let key = (server.clone(), tool.to_owned());
        self.accepted.contains_key(&key)
    }

    pub fn knows_server(&self, server: &McpServerName) -> bool {
        let of_server = |key: &ToolKey| key.0 == *server;
        self.accepted.keys().any(of_server) || self.permissions.keys().any(of_server)
    }

    pub fn has_accepted(&self, id: &McpToolId) -> bool {
        let key = (id.server.clone(), id.tool.clone());
        let digests = self.accepted.get(&key);
        digests.is_some_and(|digests| digests.contains(&id.definition))
    }

    fn has_room(&self) -> bool {
        self.definitions < MAX_ACCEPTED && self.bytes < MAX_ACCEPTED_BYTES
    }

    /// How each tool of each server stands among all of them.
    pub fn judge(&self, servers: &[SeenServer]) -> Vec<Vec<Standing>> {
        let mut names: HashMap<&str, usize> = HashMap::new();
        for server in servers.iter().filter(|server| !server.is_shadowed) {
            for tool in server.tools.iter() {
                *names.entry(&tool.offered_as).or_default() += 1;
            }
        }
        let judged = servers.iter().map(|server| {
            let tools = server.tools.iter();
            tools
                .map(|tool| match server.is_shadowed {
                    true => Standing::Shadowed,
                    false => self.standing(server, tool, names[tool.offered_as.as_str()] > 1),
                })
                .collect()
        });
        judged.collect()
    }

    fn standing(&self, server: &SeenServer, tool: &SeenTool, collides: bool) -> Standing {
        if collides {
            return Standing::Collides;
        }
        let key = (server.name.clone(), tool.definition.name.clone());
        match self.accepted.get(&key) {
            None if !self.has_room() => Standing::Full,
            None => Standing::New,
            Some(digests) if !digests.contains(&tool.digest) => Standing::Changed,
            Some(_) if self.permissions.get(&key) == Some(&McpPermission::Forbid) => {
                Standing::Forbidden
            }
            Some(_) => Standing::On,
        }
    }

    /// The tools that nobody saw before, as far as there is room for them.
    pub fn first_seen(&self, servers: &[SeenServer]) -> Vec<NewDefinition> {
        let mut room = MAX_ACCEPTED.saturating_sub(self.definitions);
        let mut bytes = MAX_ACCEPTED_BYTES.saturating_sub(self.bytes);
        let mut new = Vec::new();
        for (server, standings) in servers.iter().zip(self.judge(servers)) {
            for (tool, standing) in server.tools.iter().zip(standings) {
                if standing != Standing::New {
                    continue;
                }
                let size = serde_json::to_string(&tool.definition).map_or(0, |json| json.len());
                let size = size as u64;
                if room == 0 || size > bytes {
                    return new;
                }
                (room, bytes) = (room - 1, bytes - size);
                new.push(NewDefinition {
                    server: server.name.clone(),
                    definition: tool.definition.clone(),
                });
            }
        }
        new
    }

    /// What agents can be offered.
    pub fn named_tools(&self, servers: &[SeenServer]) -> NamedTools {
        let (mut tools, mut off) = (Vec::new(), BTreeMap::new());
        for (server, standings) in servers.iter().zip(self.judge(servers)) {
            for (tool, standing) in server.tools.iter().zip(standings) {
                let why = why_off(server, standing).or_else(|| not_working(server));
                match why {
                    None => tools.push(self.named(server, tool)),
                    Some(why) if standing != Standing::Shadowed => {
                        off.insert(tool.offered_as.clone(), why);
                    }
                    Some(_) => {}
                }
            }
        }
        NamedTools::new(tools, off)
    }

    fn named(&self, server: &SeenServer, tool: &SeenTool) -> NamedTool {
        let definition = &tool.definition;
        let id = McpToolId {
            server: server.name.clone(),
            tool: definition.name.clone(),
            definition: tool.digest.clone(),
        };
        let description = match definition.description.is_empty() {
            true => definition.title.clone().unwrap_or_default(),
            false => definition.description.clone(),
        };
        NamedTool {
            permission: self.permission(&server.name, &definition.name),
            call: McpCall {
                id,
                runs_at: server.runs_at,
                description: description.chars().take(SHOWN_DESCRIPTION_CHARS).collect(),
                hints: hints(definition),
            },
            spec: Arc::new(ToolSpec {
                name: tool.offered_as.clone(),
                description,
                parameters: parameters(definition.input_schema.clone()),
            }),
        }
    }
}

impl Standing {
    /// As people see it.
    pub fn shown(self) -> McpToolState {
        match self {
            Self::On | Self::New => McpToolState::On,
            Self::Changed | Self::Full => McpToolState::Changed,
            Self::Collides | Self::Shadowed => McpToolState::Collides,
            Self::Forbidden => McpToolState::Forbidden,
        }
    }
}

/// What is wrong with a server beyond what it says itself.
pub(super) fn complaint(server: &SeenServer, standings: &[Standing]) -> Option<String> {
    if server.is_shadowed {
        return Some(format!(
            "The project has a server of its own named {}, which is used instead; rename one of them",
            server.name
        ));
    }
    let count = |standing: Standing| standings.iter().filter(|one| **one == standing).count();
    if count(Standing::Full) > 0 {
        return Some(format!(
            "The project has accepted as many tools as it can ({MAX_ACCEPTED}, or {} MiB): new ones \
             are off; delete servers that are not used any more",
            MAX_ACCEPTED_BYTES / (1024 * 1024)
        ));
    }
    match count(Standing::Collides) {
        0 => None,
        collide => Some(format!(
            "{collide} tools are off, because models would see several under one name"
        )),
    }
}

fn why_off(server: &SeenServer, standing: Standing) -> Option<String> {
    let why = match standing {
        Standing::On => return None,
        Standing::New => "The tool is new and not stored yet; try again".to_owned(),
        Standing::Changed => format!(
            "The server {} changed the definition of this tool. It is off until a person accepts \
             the new one",
            server.name
        ),
        Standing::Full => "The project has accepted as many tools as it can".to_owned(),
        Standing::Collides => "Several tools have this name, so all of them are off".to_owned(),
        Standing::Forbidden => "A person forbade this tool".to_owned(),
        Standing::Shadowed => format!("Another server is named {}", server.name),
    };
    Some(why)
}

fn not_working(server: &SeenServer) -> Option<String> {
    let name = &server.name;
    match server.status {
        McpStatus::Ready | McpStatus::Idle | McpStatus::Starting => None,
        McpStatus::Failed => {
            let error = server.error.as_deref().unwrap_or("it gives no reason");
            Some(format!("The server {name} does not work now: {error}"))
        }
        McpStatus::Unauthorized => Some(format!(
            "A person has to authorize CodeLab at the server {name} first"
        )),
    }
}

/// What a server says about its tool and people can be shown in a word.
fn hints(definition: &ToolDefinition) -> BTreeMap<String, bool> {
    let annotations = definition.annotations.iter().flatten();
    annotations
        .filter_map(|(name, value)| Some((name.clone(), value.as_bool()?)))
        .take(MAX_HINTS)
        .collect()
}

/// The arguments as providers want them described: an object that names its properties.
fn parameters(mut schema: Map<String, Value>) -> Box<RawValue> {
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    let raw = serde_json::value::to_raw_value(&schema);
    raw.expect("a JSON object is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, description: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: Map::new(),
            annotations: None,
        }
    }

    fn server(name: &str, tools: &[ToolDefinition]) -> SeenServer {
        let name = McpServerName::parse(name).unwrap();
        SeenServer {
            tools: SeenTool::all(&name, tools).0,
            name,
            runs_at: McpPlace::Server,
            client: None,
            status: McpStatus::Ready,
            error: None,
            is_shadowed: false,
        }
    }

    fn accepted(server: &SeenServer) -> Vec<AcceptedDefinition> {
        let rows = server.tools.iter().map(|tool| AcceptedDefinition {
            server: server.name.clone(),
            tool: tool.definition.name.clone(),
            digest: tool.digest.clone(),
            bytes: 100,
        });
        rows.collect()
    }

    #[test]
    fn a_changed_definition_is_off_and_each_accepted_one_is_on() {
        let [one, two, three] =
            ["one", "two", "three"].map(|text| server("s", &[definition("t", text)]));
        let mut rows = accepted(&one);
        rows.extend(accepted(&two));
        let trust = Trust::new(rows, Vec::new());
        for (seen, standing) in [
            (one, Standing::On),
            (two, Standing::On),
            (three, Standing::Changed),
            (server("other", &[definition("t", "one")]), Standing::New),
        ] {
            let servers = [seen];
            assert_eq!(trust.judge(&servers), [[standing]]);
            let tools = trust.named_tools(&servers);
            assert_eq!(tools.is_empty(), standing != Standing::On, "{standing:?}");
            let new = trust.first_seen(&servers).len();
            assert_eq!(new, usize::from(standing == Standing::New));
        }
    }

    #[test]
    fn tools_that_models_would_see_under_one_name_are_all_off() {
        let odd = definition("a.b", "odd");
        let name = McpServerName::parse("s").unwrap();
        let offered = offered_name(&name, &odd.name);
        let twin = definition(offered.strip_prefix("mcp__s__").unwrap(), "twin");
        let plain = definition("plain", "");
        let servers = [server("s", &[odd, twin, plain.clone(), plain])];
        let trust = Trust::new(accepted(&servers[0]), Vec::new());
        let judged = trust.judge(&servers);
        assert_eq!(judged, [[Standing::Collides; 4]]);
        assert!(trust.named_tools(&servers).is_empty());
        assert!(Trust::default().first_seen(&servers).is_empty());
        assert!(complaint(&servers[0], &judged[0]).unwrap().starts_with("4"));
    }

    #[test]
    fn permissions_and_the_state_of_the_server_count() {
        let mut seen = server("s", &[definition("t", "")]);
        let row = |permission| McpPermissionRow {
            server: seen.name.clone(),
            tool: "t".to_owned(),
            permission,
        };
        let forbidding = Trust::new(accepted(&seen), vec![row(McpPermission::Forbid)]);
        assert_eq!(
            forbidding.judge(std::slice::from_ref(&seen)),
            [[Standing::Forbidden]]
        );
        let trust = Trust::new(accepted(&seen), vec![row(McpPermission::Allow)]);
        assert_eq!(trust.permission(&seen.name, "t"), McpPermission::Allow);
        assert_eq!(trust.permission(&seen.name, "u"), McpPermission::Ask);
        for (status, works) in [
            (McpStatus::Ready, true),
            (McpStatus::Idle, true),
            (McpStatus::Failed, false),
            (McpStatus::Unauthorized, false),
        ] {
            seen.status = status;
            let tools = trust.named_tools(std::slice::from_ref(&seen));
            assert_eq!(!tools.is_empty(), works, "{status:?}");
        }
    }

    #[test]
    fn a_flood_of_tools_is_bounded() {
        let flood: Vec<_> = (0..MAX_ACCEPTED + 10)
            .map(|number| definition(&format!("t{number}"), ""))
            .collect();
        let seen = [server("s", &flood)];
        assert_eq!(Trust::default().first_seen(&seen).len(), MAX_ACCEPTED);
        let full = Trust::new(accepted(&server("s", &flood[..MAX_ACCEPTED])), Vec::new());
        assert!(full.first_seen(&seen).is_empty());
        let judged = full.judge(&seen);
        assert_eq!(judged[0][MAX_ACCEPTED], Standing::Full);
        assert!(complaint(&seen[0], &judged[0]).is_some());
        let long = definition(&"x".repeat(MAX_TOOL_NAME_BYTES + 1), "");
        let (tools, left_out) = SeenTool::all(&seen[0].name, &[long]);
        assert_eq!((tools.len(), left_out), (0, 1));
    }
}
