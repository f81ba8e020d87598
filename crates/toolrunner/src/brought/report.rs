//! What CodeLab's server is told about the workspace: digests first, then the texts that it lacks.

use codelab_client::ClientError;
use codelab_protocol::{
    BroughtKind, BroughtPart, BroughtSkill, BroughtText, Digest, InstructionsReport,
    MAX_INSTRUCTION_BYTES, MAX_INSTRUCTIONS_REPORT_BYTES, MAX_SKILL_BYTES, MAX_WAITING_CONTENTS,
    SendTexts, WaitingContent,
};
use codelab_workspace::FoundText;

use super::{BroughtState, WaitingFile};
use crate::{RunnerState, lock};

/// Contents that wait, in one report. Paths, names and descriptions need room too.
const MAX_CONTENT_BYTES: usize = MAX_INSTRUCTIONS_REPORT_BYTES - (384 << 10);
/// Texts that are sent at once.
const MAX_SENT_BYTES: usize = 1024 * 1024;

impl BroughtState {
    pub(super) fn report(&self) -> InstructionsReport {
        let text = |text: &FoundText| BroughtText {
            path: text.path.clone(),
            digest: text.digest.clone(),
            bytes: text.content.len() as u64,
        };
        let skills = self.skills.iter().map(|skill| BroughtSkill {
            name: skill.name.clone(),
            description: skill.description.clone(),
            folder: skill.folder.clone(),
            digest: skill.digest.clone(),
            text: skill.text.digest.clone(),
            bytes: skill.text.content.len() as u64,
        });
        let mut room = MAX_CONTENT_BYTES;
        let waiting = self.waiting.iter().take(MAX_WAITING_CONTENTS);
        InstructionsReport {
            files: self.instructions.iter().map(text).collect(),
            skills: skills.collect(),
            commands: self.commands.iter().map(text).collect(),
            waiting: waiting.map(|waiting| waiting.report(&mut room)).collect(),
            notices: self.notices.clone(),
        }
    }

    fn text(&self, digest: &Digest) -> Option<&str> {
        let files = self.instructions.iter();
        let mut texts = files.chain(self.skills.iter().map(|skill| &skill.text));
        let text = texts.find(|text| text.digest == *digest)?;
        Some(&text.content)
    }
}

impl WaitingFile {
    /// A content is sent whole or not at all: nobody should trust what they cannot see.
    fn report(&self, room: &mut usize) -> WaitingContent {
        let file = &self.file;
        let most = match file.kind {
            BroughtKind::Skill => MAX_SKILL_BYTES,
            _ => MAX_INSTRUCTION_BYTES,
        };
        let part = |part: &codelab_workspace::SkillFile| BroughtPart {
            path: part.path.clone(),
            bytes: part.bytes,
        };
        let parts: Vec<BroughtPart> = file.parts.iter().map(part).collect();
        // As JSON a character can take six bytes.
        let bytes = serde_json::to_string(&(&file.content, &parts)).map_or(usize::MAX, |j| j.len());
        let left = room
            .checked_sub(bytes)
            .filter(|_| file.content.len() <= most);
        let is_whole = left.is_some();
        *room = left.unwrap_or(*room);
        WaitingContent {
            kind: file.kind,
            path: file.path.clone(),
            digest: file.digest.clone(),
            bytes: file.content.len() as u64,
            changed: self.is_changed,
            content: if is_whole {
                file.content.clone()
            } else {
                String::new()
            },
            truncated: !is_whole,
            parts: if is_whole { parts } else { Vec::new() },
            decided: false,
        }
    }
}

impl RunnerState {
    /// Sends what is known now, and the texts that are missing there.
    pub(crate) async fn report_brought(&self) -> Result<(), ClientError> {
        let state = self.brought.state();
        let report = state.report();
        let digest = report.digest();
        if *lock(&self.brought.sent) == Some(digest.clone()) {
            return Ok(());
        }
        let (project, id) = (self.project, &self.client_id);
        let missing = self
            .client
            .report_instructions(project, id, &report)
            .await?;
        let mut texts: Vec<String> = Vec::new();
        let mut bytes = 0;
        for text in missing.iter().filter_map(|digest| state.text(digest)) {
            if bytes + text.len() > MAX_SENT_BYTES && !texts.is_empty() {
                let sent = SendTexts {
                    texts: std::mem::take(&mut texts),
                };
                self.client.send_texts(project, id, &sent).await?;
                bytes = 0;
            }
            bytes += text.len();
            texts.push(text.to_owned());
        }
        if !texts.is_empty() {
            let sent = SendTexts { texts };
            self.client.send_texts(project, id, &sent).await?;
        }
        *lock(&self.brought.sent) = Some(digest);
        Ok(())
    }
}
