//! Settings as an operator gives them.

mod documented;

use codelab_engine::Locale;
use codelab_policy::Verdict;
use codelab_protocol::{ToolArguments, Usage};

use super::*;

fn load(file: &str, environment: &[(&str, &str)]) -> Result<Settings, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("codelab.toml"), file).unwrap();
    let flags = Flags {
        data_dir: Some(folder.path().to_owned()),
        ..Flags::default()
    };
    Settings::load(
        flags,
        environment
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    )
}

#[test]
fn the_environment_wins_over_the_file() {
    let file = "multi_agent_mode = true\n[limits]\nsteps = 7\nqueue_length = 3\n";
    let settings = load(
        file,
        &[
            ("CODELAB_LIMITS__STEPS", "9"),
            ("MULTI_AGENT_MODE", "false"),
            ("OPENAI_API_KEY", "second"),
            ("LLM_API_KEY", "first"),
            ("CODELAB_SERVER__ALLOWED_HOSTS", "[\"codelab.example\"]"),
            ("CODELAB_TOKEN", "not a setting"),
            // Set by others for reasons of their own.
            ("CODELAB_BIN", "target/debug/codelab"),
            ("CODELAB_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("CODELAB_SERVICE_HOST", "10.0.0.1"),
            ("CODELAB_TEST_POSTGRES_URL", "postgres:"),
            ("CODELAB_ADDR", "localhost:9000"),
        ],
    )
    .unwrap();
    assert_eq!(
        (settings.limits.steps, settings.limits.queue_length),
        (9, 3)
    );
    assert_eq!(settings.mode, AgentMode::Single);
    assert_eq!(settings.llm.api_key.unwrap().expose(), "first");
    assert_eq!(settings.http.allowed_hosts, ["codelab.example"]);
    assert_eq!(settings.addr.to_string(), "127.0.0.1:9000");
}

#[test]
fn a_wrong_setting_is_named_in_one_line() {
    let cases: &[(&str, &[(&str, &str)], &str)] = &[
        ("[limits]\nsteps = \"many\"\n", &[], "limits.steps"),
        ("[limits]\nstep = 1\n", &[], "limits.step"),
        ("[limits\n", &[], "line 1"),
        (
            "",
            &[("CODELAB_LIMITS__STEPS", "0")],
            "limits.steps: must be more than 0",
        ),
        ("", &[("CODELAB_NO__SUCH", "1")], "no"),
        ("", &[("CODELAB_ADDR", "nowhere")], "addr"),
        (
            "",
            &[("DATABASE_URL", "mysql://x")],
            "or postgres: (check DATABASE_URL)",
        ),
        ("localle = \"en\"\n", &[], "localle"),
        (
            "",
            &[("CODELAB_LOCALES", "en")],
            "CODELAB_LOCALES: is not a setting; is CODELAB_LOCALE meant?",
        ),
        (
            "",
            &[("CODELAB_MULTI_AGENT", "false")],
            "is CODELAB_MULTI_AGENT_MODE meant?",
        ),
        (
            "",
            &[("CODELAB_MULTIPLE_TOOLCALL", "reject")],
            "is CODELAB_MULTIPLE_TOOL_CALLS meant?",
        ),
        (
            "",
            &[("CODELAB_DATADIR", "/tmp")],
            "is CODELAB_DATA_DIR meant?",
        ),
        (
            "",
            &[("CODELAB_SERVER__PUBLIC_URL", "codelab.example")],
            "server.public_url",
        ),
        (
            "",
            &[("CODELAB_SERVER__ALLOWED_ORIGINS", "[\"ftp://x\"]")],
            "server.allowed_origins",
        ),
        (
            "",
            &[("CODELAB_SERVER__ALLOWED_HOSTS", "[\"http://x\"]")],
            "server.allowed_hosts",
        ),
        (
            "",
            &[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "1000000000000")],
            "limits.approval_timeout_seconds",
        ),
        (
            "",
            &[("CODELAB_SERVER__WRITE_TIMEOUT_SECONDS", "0")],
            "server.write_timeout_seconds: must be more than 0",
        ),
        (
            "",
            &[("CODELAB_SERVER__WRITE_TIMEOUT_SECONDS", "1000000000000")],
            "server.write_timeout_seconds: must be at most",
        ),
        ("", &[("MULTI_AGENT_MODE", "perhaps")], "multi_agent_mode"),
        ("multiple_tool_calls = \"xx\"", &[], "multiple_tool_calls"),
        ("locale = \"fr\"", &[], "locale: must be en, ru or uk"),
        ("", &[("CODELAB_LOCALE", "5")], "locale"),
        (
            "",
            &[("CODELAB_CONTEXT__TIMEZONE", "Kyiv")],
            "context.timezone: must be an IANA time zone",
        ),
        ("[chat]\naccess = \"some\"\n", &[], "chat.access"),
        (
            "",
            &[("CODELAB_CHAT__HISTORY_MESSAGES", "0")],
            "chat.history_messages: must be more than 0",
        ),
        (
            "",
            &[("CODELAB_AUTH__JWT_ALGORITHM", "none")],
            "auth.jwt_algorithm",
        ),
        (
            "",
            &[("CODELAB_AUTH__JWT_ALGORITHM", "HS512")],
            "auth.jwt_algorithm",
        ),
        (
            "",
            &[("CODELAB_MODEL_MAP__", "x")],
            "model_map.: is not a setting",
        ),
        (
            "",
            &[("CODELAB_PRICES__gpt-3.5-turbo", "1")],
            "prices.gpt-3.5-turbo",
        ),
        (
            "[policy]\nask_for = [\"docker(\"]\n",
            &[],
            "policy.ask_for: \"docker(\" is no regular expression",
        ),
        (
            "",
            &[("CODELAB_POLICY__ASK_FOR", "docker")],
            "policy.ask_for",
        ),
        (
            "[sandbox]\nprocesses = 0\n",
            &[],
            "sandbox.processes: must be more than 0",
        ),
        (
            "[sandbox]\nreadable = [\"tools\"]\n",
            &[],
            "sandbox.readable: tools is not an absolute path",
        ),
        (
            "",
            &[("CODELAB_POLICY__PROTECTED_PATHS", "[\"./\"]")],
            "policy.protected_paths: \"./\" names no file",
        ),
        (
            "[prices.gpt-4]\ninput_per_million_usd = -1\noutput_per_million_usd = 1\n",
            &[],
            "prices.gpt-4",
        ),
        (
            "[prices.m]\ninput_per_million_usd = 1\noutput_per_million_usd = 1\n\
             cached_input_per_million_usd = -1\n",
            &[],
            "prices.m",
        ),
        (
            "[providers.a]\nkind = \"openai\"\nurl = \"http://a\"\nkey_env = \"NO_SUCH_KEY\"\n",
            &[],
            "providers.a.key_env: names NO_SUCH_KEY, which is not set",
        ),
        (
            "[providers.a]\nkind = \"gemini\"\nurl = \"http://a\"\n",
            &[],
            "providers.a.kind",
        ),
        (
            "[providers.default]\nkind = \"openai\"\nurl = \"http://a\"\n",
            &[],
            "providers.default: is the server at LLM_PROXY_URL",
        ),
        (
            "[providers.a]\nkind = \"openai\"\nurl = \"http://a\"\n",
            &[],
            "llm.model: must be NAME/model",
        ),
        ("[context]\ntokens = \"some\"\n", &[], "context.tokens"),
    ];
    for (file, environment, part) in cases {
        let error = load(file, environment)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.contains(part),
            "{file:?} {environment:?} gave {error:?}"
        );
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[test]
fn one_forced_model_is_enough_where_a_provider_is_set() {
    let file = "[providers.a]\nkind = \"openai\"\nurl = \"http://a\"\n";
    let settings = load(file, &[("LLM_MODEL_OVERRIDE", "a/m")]).unwrap();
    assert_eq!(settings.llm.model_override.as_deref(), Some("a/m"));
    let config = crate::serve::model_config(&settings).unwrap();
    assert!(codelab_llm::Models::new(config).is_ok());
}

#[test]
fn models_are_named_as_they_are_in_the_environment_too() {
    let file = "[model_map]\n\"gpt-4\" = \"a\"\nother = \"b\"\n[prices.\"gpt-3.5-turbo\"]\n\
                input_per_million_usd = 1\noutput_per_million_usd = 1\n";
    let llm = load(
        file,
        &[
            ("CODELAB_MODEL_MAP__GPT-4", "4"),
            ("CODELAB_MODEL_MAP__gpt-3.5-turbo", "local"),
            ("CODELAB_MODEL_MAP__Qwen/Qwen2.5-Coder", "coder"),
            ("CODELAB_PRICES__GPT-3.5-TURBO__INPUT_PER_MILLION_USD", "2"),
            ("CODELAB_PRICES__llama3.1:8b__INPUT_PER_MILLION_USD", "3"),
            ("CODELAB_PRICES__llama3.1:8b__OUTPUT_PER_MILLION_USD", "4"),
        ],
    )
    .unwrap()
    .llm;
    let map: Vec<_> = llm
        .model_map
        .iter()
        .map(|(name, wire)| (name.as_str(), wire.as_str()))
        .collect();
    assert_eq!(
        map,
        [
            ("Qwen/Qwen2.5-Coder", "coder"),
            ("gpt-3.5-turbo", "local"),
            ("gpt-4", "4"),
            ("other", "b")
        ]
    );
    let million = Usage {
        prompt_tokens: 1_000_000,
        completion_tokens: 1_000_000,
        ..Usage::default()
    };
    assert_eq!(llm.prices.cost("gpt-3.5-turbo", &million), Some(3.0));
    assert_eq!(llm.prices.cost("llama3.1:8b", &million), Some(7.0));
}

#[test]
fn rules_can_be_added_to_the_built_in_ones() {
    let settings = load(
        "[policy]\nprotected_paths = [\"deploy\"]\n",
        &[("CODELAB_POLICY__ASK_FOR", "['\\bcargo test\\b']")],
    );
    let policy = settings.unwrap().policy;
    assert!(
        policy.protects("deploy/prod.yaml")
            && policy.protects(".git/hooks/x")
            && !policy.protects("src/a.rs")
    );
    let asks = |command: &str| {
        let arguments = serde_json::json!({ "command": command });
        let call = ToolArguments::ExecuteCommand(serde_json::from_value(arguments).unwrap());
        policy.review(&call) != Verdict::Allow
    };
    assert!(asks("cargo test") && asks("sudo ls") && !asks("ls"));
}

#[test]
fn the_language_and_the_time_zone_are_settings() {
    let default = load("", &[]).unwrap();
    assert_eq!(
        (default.region.locale, default.region.zone.name()),
        (Locale::En, "UTC")
    );
    assert_eq!(default.page_locale, None, "the page follows the browser");
    let file = "locale = \"ru\"\n[context]\ntimezone = \"Europe/Kyiv\"\n";
    let set = load(file, &[("CODELAB_LOCALE", "uk")]).unwrap();
    assert_eq!(
        (set.region.locale, set.region.zone.name()),
        (Locale::Uk, "Europe/Kyiv")
    );
    assert_eq!(set.page_locale, Some(Locale::Uk));
    assert_eq!(
        load("locale = \"en\"\n", &[]).unwrap().page_locale,
        Some(Locale::En)
    );
}

#[test]
fn secrets_are_not_shown_by_debug() {
    let settings = load(
        "",
        &[
            ("INTERNAL_API_KEY", "canary-1"),
            ("JWT_SECRET", "canary-2"),
            ("LLM_API_KEY", "canary-3"),
        ],
    );
    assert!(!format!("{settings:?}").contains("canary"));
}

#[test]
fn every_setting_says_where_it_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codelab.toml");
    std::fs::write(
        &path,
        "[limits]\nsteps = 7\nqueue_length = 3\n[model_map]\n\"gpt-3.5-turbo\" = \"a\"\n",
    )
    .unwrap();
    let flags = Flags {
        data_dir: Some(folder.path().to_owned()),
        addr: Some("127.0.0.1:1".into()),
        config: None,
    };
    let environment = [
        ("CODELAB_LIMITS__STEPS", "9"),
        ("CODELAB_MODEL_MAP__GPT-3.5-TURBO", "b"),
        ("OPENAI_API_KEY", "canary-1"),
        ("REDIS_URL", "redis://:canary-2@cache"),
        ("JWT_SECRET", "canary-3"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let explained = Settings::explain(flags, environment.into_iter());
    let shown = |name: &str| {
        let found = explained.shown.iter().find(|setting| setting.name == name);
        let found = found.unwrap_or_else(|| panic!("{name} is not shown"));
        (found.value.to_string(), found.source.to_string())
    };
    let own = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(
        shown("limits.steps"),
        own("9", "environment: CODELAB_LIMITS__STEPS")
    );
    assert_eq!(
        shown("limits.queue_length"),
        own("3", &path.display().to_string())
    );
    assert_eq!(shown("limits.repeats"), own("3", "default"));
    assert_eq!(
        shown("model_map.gpt-3.5-turbo"),
        own("\"b\"", "environment: CODELAB_MODEL_MAP__GPT-3.5-TURBO")
    );
    assert_eq!(shown("addr"), own("\"127.0.0.1:1\"", "flag: --addr"));
    assert_eq!(shown("data_dir").1, "flag: --data-dir");
    assert_eq!(
        shown("llm.api_key"),
        own("\"[secret]\"", "environment: OPENAI_API_KEY")
    );
    assert_eq!(shown("llm.proxy_url"), own("null", "default"));
    assert_eq!(
        shown("JWT_SECRET"),
        own("\"[secret]\"", "environment: JWT_SECRET")
    );
    assert_eq!(
        shown("redis.url"),
        own("\"redis://***@cache\"", "environment: REDIS_URL")
    );
    assert!(explained.settings.is_ok() && !format!("{:?}", explained.shown).contains("canary"));
}

#[test]
fn a_key_without_an_address_is_said_and_what_to_type() {
    let cases: &[(&[(&str, &str)], Option<(&str, &str)>)] = &[
        (&[], None),
        (
            &[
                ("LLM_PROXY_URL", "http://127.0.0.1:1"),
                ("OPENAI_API_KEY", "k"),
            ],
            None,
        ),
        (
            &[("OPENAI_API_KEY", "k")],
            Some((
                "OPENAI_API_KEY",
                "LLM_PROXY_URL=https://api.openai.com/v1 LLM_MODEL=gpt-4o-mini",
            )),
        ),
        (
            &[("OPENAI_API_KEY", "k"), ("LLM_MODEL", "gpt-5")],
            Some(("OPENAI_API_KEY", "LLM_PROXY_URL=https://api.openai.com/v1")),
        ),
        (
            &[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://x")],
            Some(("OPENAI_BASE_URL", "LLM_PROXY_URL=\"$OPENAI_BASE_URL\"")),
        ),
        (
            &[("ANTHROPIC_API_KEY", "k")],
            Some((
                "ANTHROPIC_API_KEY",
                "LLM_PROXY_URL=https://api.anthropic.com/v1 LLM_API_KEY=\"$ANTHROPIC_API_KEY\" LLM_MODEL=claude-sonnet-4-5",
            )),
        ),
        (
            &[("LLM_API_KEY", "k")],
            Some(("LLM_API_KEY", "LLM_PROXY_URL=http://HOST:PORT")),
        ),
        (
            &[("LLM_MODEL", "m")],
            Some(("LLM_MODEL", "LLM_PROXY_URL=http://HOST:PORT")),
        ),
    ];
    for (environment, wanted) in cases {
        let hint = load("", environment).unwrap().llm.hint;
        match (hint, wanted) {
            (None, None) => {}
            (Some(hint), Some((name, variables))) => {
                assert!(
                    hint.why.starts_with(&format!("{name} is set, but ")),
                    "{hint:?}"
                );
                assert_eq!(&hint.variables, variables);
            }
            (hint, wanted) => panic!("{environment:?}: {hint:?}, not {wanted:?}"),
        }
    }
}
