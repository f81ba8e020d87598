//! What a configuration file may say, and what is said about one that cannot be used.

use super::*;

fn name(text: &str) -> McpServerName {
    McpServerName::parse(text).unwrap()
}

fn entry(entry: &str) -> Result<McpConfig, McpConfigError> {
    McpConfig::parse(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#))
}

#[test]
fn both_kinds_are_read() {
    let config = McpConfig::parse(
        r#"{"mcpServers": {
            "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "1"}, "cwd": "sub"},
            "same": {"type": "stdio", "command": "x"},
            "web": {"type": "http", "url": "https://a.test/mcp?x=1", "headers": {"X-Key": "v"}},
            "plain": {"url": "https://a.test/mcp"},
            "other": {"type": "streamable-http", "url": "https://a.test/mcp"},
            "off": {"command": "x", "disabled": true}
        }}"#,
    )
    .unwrap();
    assert_eq!(config.servers.len(), 5);
    assert_eq!(config.disabled, BTreeSet::from([name("off")]));
    assert!(config.warnings.is_empty());
    let ServerConfig::Stdio(git) = &config.servers[&name("git")] else {
        panic!("git is a program");
    };
    assert_eq!(git.args, ["mcp-server-git"]);
    assert_eq!(git.cwd, Some(PathBuf::from("sub")));
    assert!(matches!(
        config.servers[&name("plain")],
        ServerConfig::Http(_)
    ));
    assert_eq!(McpConfig::parse("{}").unwrap(), McpConfig::default());
}

#[test]
fn unknown_keys_are_named_and_have_no_effect() {
    let config = McpConfig::parse(
        r#"{"mcpServers": {"a": {"command": "x", "autoApprove": ["t"]}}, "inputs": []}"#,
    )
    .unwrap();
    assert_eq!(
        config.warnings,
        [
            "\"inputs\" has no effect",
            "\"autoApprove\" of the server a has no effect"
        ]
    );
}

#[test]
fn unusable_entries_are_named_with_the_reason() {
    for (text, expected) in [
        ("1", "it must be a JSON object"),
        ("{}", "it needs a command or a url"),
        (
            r#"{"command": "a", "url": "http://b"}"#,
            "both command and url",
        ),
        (r#"{"command": " "}"#, "its command is empty"),
        (r#"{"command": 1}"#, "command must be a text"),
        (
            r#"{"command": "a", "args": "b"}"#,
            "args must be a list of texts",
        ),
        (
            r#"{"command": "a", "args": [1]}"#,
            "args must be a list of texts",
        ),
        (
            r#"{"command": "a", "env": {"A": 1}}"#,
            "env must be an object",
        ),
        (
            r#"{"command": "a", "env": {"A=B": "1"}}"#,
            "no process can have",
        ),
        (
            r#"{"command": "a", "disabled": "yes"}"#,
            "disabled must be true or false",
        ),
        (
            r#"{"type": "sse", "url": "http://b"}"#,
            "sse is not supported",
        ),
        (r#"{"type": "ws", "url": "http://b"}"#, "\"ws\" is unknown"),
        (r#"{"type": "http", "command": "b"}"#, "it needs a url"),
        (
            r#"{"type": "stdio", "url": "http://b"}"#,
            "it needs a command",
        ),
        (r#"{"url": "ftp://b"}"#, "must start with http"),
        (r#"{"url": "http://u:p@b"}"#, "user name or password"),
        (r#"{"url": "http://b/#x"}"#, "query or a fragment"),
        (
            r#"{"url": "http://b", "headers": {"a b": "c"}}"#,
            "name of a header",
        ),
        (
            r#"{"url": "http://b", "headers": {"Host": "c"}}"#,
            "set by the protocol",
        ),
        (
            r#"{"url": "http://b", "headers": {"x": "c\nd"}}"#,
            "cannot be sent",
        ),
    ] {
        let error = entry(text).unwrap_err().to_string();
        assert!(error.starts_with("the server \"a\": "), "{error}");
        assert!(error.contains(expected), "{text}: {error}");
    }
    for wrong in ["", "a b", "a/b", "é", &"x".repeat(65)] {
        let text = format!(r#"{{"mcpServers": {{"{wrong}": {{"command": "x"}}}}}}"#);
        let error = McpConfig::parse(&text).unwrap_err().to_string();
        assert!(error.contains("1 to 64 characters"), "{wrong}: {error}");
    }
    for text in ["[]", "{\"servers\": {}}", "{\"mcpServers\": []}"] {
        assert_eq!(McpConfig::parse(text), Err(McpConfigError::NotServers));
    }
    let broken = McpConfig::parse("{\"secret-canary")
        .unwrap_err()
        .to_string();
    assert!(
        broken.contains("line 1") && !broken.contains("canary"),
        "{broken}"
    );
}

#[test]
fn variables_are_expanded_by_the_caller() {
    let config = entry(
        r#"{"command": "${HOME}/x", "args": ["${A}", "a${EMPTY:-b}c", "$A", "${UNSET:-}"],
            "env": {"K": "${A}${A}"}, "cwd": "${A}"}"#,
    )
    .unwrap();
    let known = |name: &str| match name {
        "HOME" => Some("/opt/h".to_owned()),
        "A" => Some("${HOME}".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let ServerConfig::Stdio(found) = config.servers[&name("a")].expand(known).unwrap() else {
        panic!("a program stays one");
    };
    assert_eq!(found.command, "/opt/h/x");
    assert_eq!(found.args, ["${HOME}", "abc", "$A", ""]);
    assert_eq!(found.env["K"], "${HOME}${HOME}");
    assert_eq!(found.cwd, Some(PathBuf::from("${HOME}")));

    let http = entry(r#"{"url": "${BASE}/mcp", "headers": {"X": "Bearer ${TOKEN}"}}"#).unwrap();
    let http = &http.servers[&name("a")];
    for (base, token, expected) in [
        (Some("https://a.test"), Some("t"), None),
        (
            Some("https://a.test"),
            None,
            Some("the variable TOKEN is not set, and headers.X"),
        ),
        (
            Some("ftp://a.test"),
            Some("t"),
            Some("must start with http"),
        ),
        (Some("https://a.test"), Some("t\n"), Some("cannot be sent")),
        (
            None,
            Some("t"),
            Some("the variable BASE is not set, and url"),
        ),
    ] {
        let result = http.expand(|name| {
            let value = if name == "BASE" { base } else { token };
            value.map(str::to_owned)
        });
        match expected {
            None => assert!(result.is_ok()),
            Some(text) => {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(text), "{error}");
            }
        }
    }
    for malformed in ["${", "${A", "${}", "${A B}", "${1}"] {
        let text = format!(r#"{{"command": "{malformed}"}}"#);
        let config = entry(&text).unwrap();
        let result = config.servers[&name("a")].expand(known);
        assert!(
            matches!(result, Err(UnsetVariable::Malformed { .. })),
            "{malformed}"
        );
    }
}

#[test]
fn debug_shows_no_secret() {
    let config = McpConfig::parse(
        r#"{"mcpServers": {
            "a": {"command": "x", "args": ["--key=canary"], "env": {"KEY": "canary"}},
            "b": {"url": "https://a.test/mcp?key=canary", "headers": {"X-Key": "canary"}}
        }}"#,
    )
    .unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("X-Key") && shown.contains("KEY"), "{shown}");
}
