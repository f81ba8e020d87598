//! `/allowed`: what the person allowed for the rest of the session, and taking it back.

use codelab_client::Client;
use codelab_protocol::{Remembered, RememberedCalls, RememberedId, SessionId};

use crate::Language;
use crate::texts::CommandText;

use super::block::Block;
use super::requests::RequestOutcome;

pub async fn list(client: Client, session: SessionId, language: Language) -> RequestOutcome {
    match client.remembered(&session).await {
        Ok(allowed) if allowed.is_empty() => {
            let notice = language.text(CommandText::NothingAllowed).to_owned();
            RequestOutcome::Shown(vec![Block::Notice(notice)])
        }
        Ok(allowed) => {
            let row = |(index, rule): (usize, &Remembered)| {
                format!("{:>2}  {}", index + 1, named(&rule.covers, language))
            };
            let mut rows: Vec<String> = allowed.iter().enumerate().map(row).collect();
            rows.push(language.text(CommandText::AllowedHint).to_owned());
            let ids = allowed.into_iter().map(|rule| rule.id);
            RequestOutcome::Allowed(ids.collect(), rows)
        }
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// An event of the session says that it was taken back.
pub async fn revoke(client: Client, session: SessionId, id: RememberedId) -> RequestOutcome {
    match client.revoke_remembered(&session, &id).await {
        Ok(()) => RequestOutcome::Accepted,
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// What stands under this number in the last list; a minus before it is how the help writes it.
pub fn numbered<'a>(listed: &'a [RememberedId], wanted: &str) -> Option<&'a RememberedId> {
    let number: usize = wanted.strip_prefix('-').unwrap_or(wanted).parse().ok()?;
    listed.get(number.checked_sub(1)?)
}

/// Which calls pass, in the person's language.
pub fn named(covers: &RememberedCalls, language: Language) -> String {
    match covers {
        RememberedCalls::FileWrites => language.text(CommandText::AllowedWrites).to_owned(),
        RememberedCalls::Command { command, cwd: None } => {
            language.with(CommandText::AllowedCommand, &[command])
        }
        RememberedCalls::Command {
            command,
            cwd: Some(folder),
        } => language.with(CommandText::AllowedCommandIn, &[command, folder]),
        RememberedCalls::McpTool { server, tool } => {
            language.with(CommandText::AllowedMcpTool, &[tool, server.as_str()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_the_list_that_was_shown() {
        let ids: Vec<RememberedId> = ["a", "b"].iter().map(|id| id.parse().unwrap()).collect();
        for (wanted, expected) in [
            ("1", Some("a")),
            ("-2", Some("b")),
            ("0", None),
            ("3", None),
            ("npm test", None),
        ] {
            let found = numbered(&ids, wanted).map(RememberedId::as_str);
            assert_eq!(found, expected, "{wanted}");
        }
    }
}
