//! The front matter of a `SKILL.md`, by the specification of Agent Skills and its validator. Where
//! the two differ, what both accept counts: a skill that is taken here works elsewhere too.

use std::collections::BTreeMap;

use codelab_protocol::{MAX_SKILL_DESCRIPTION_CHARS, MAX_SKILL_NAME_CHARS};
use serde::Deserialize;

const FENCE: &str = "---";
const MAX_COMPATIBILITY_CHARS: usize = 500;
/// What a value begins with that the validator refuses: lists and maps on one line, anchors, tags.
const REFUSED_BEGINNINGS: [char; 5] = ['[', '{', '&', '*', '!'];

/// What is known of a skill before it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillHead {
    pub name: String,
    pub description: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
    name: String,
    description: String,
    #[serde(default)]
    #[allow(
        dead_code,
        reason = "its form is checked, and nothing else is done with it"
    )]
    license: Option<String>,
    #[serde(default)]
    compatibility: Option<String>,
    #[serde(default)]
    #[allow(
        dead_code,
        reason = "its form is checked, and nothing else is done with it"
    )]
    metadata: Option<BTreeMap<String, String>>,
    /// It would say what may run without asking. It grants nothing here.
    #[serde(default, rename = "allowed-tools")]
    #[allow(
        dead_code,
        reason = "its form is checked, and nothing else is done with it"
    )]
    allowed_tools: Option<AllowedTools>,
}

#[derive(Deserialize)]
#[serde(untagged)]
#[allow(
    dead_code,
    reason = "its form is checked, and nothing else is done with it"
)]
enum AllowedTools {
    Line(String),
    List(Vec<String>),
}

/// Reads the front matter of a skill in a folder of this name. The error says what is wrong.
pub fn skill_head(folder_name: &str, text: &str) -> Result<SkillHead, String> {
    let text = text.replace("\r\n", "\n");
    let matter = text
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---"))
        .filter(|(_, below)| below.is_empty() || below.starts_with('\n'))
        .map(|(matter, _)| matter)
        .ok_or("it does not begin with front matter between two lines of ---")?;
    if matter.contains(FENCE) {
        return Err("its front matter contains ---, where other programs end it".to_owned());
    }
    if let Some(line) = refused_line(matter) {
        return Err(format!(
            "the line `{line}` of its front matter has a list or map on one line, an anchor or a tag"
        ));
    }
    let matter: FrontMatter = serde_saphyr::from_str(matter).map_err(|error| {
        let error = error.to_string();
        format!("front matter: {}", error.lines().next().unwrap_or_default())
    })?;
    let name = matter.name.trim();
    if name.chars().count() > MAX_SKILL_NAME_CHARS {
        return Err(format!(
            "its name is longer than {MAX_SKILL_NAME_CHARS} characters"
        ));
    }
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(is_letter) {
        return Err("its name must be lower-case letters a-z, digits and hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err(
            "its name must not begin or end with a hyphen, or have two in a row".to_owned(),
        );
    }
    if name != folder_name {
        return Err(format!(
            "its name is {name}, and its folder's name is another one"
        ));
    }
    if matter.description.trim().is_empty() {
        return Err("its description is empty".to_owned());
    }
    if matter.description.chars().count() > MAX_SKILL_DESCRIPTION_CHARS {
        return Err(format!(
            "its description is longer than {MAX_SKILL_DESCRIPTION_CHARS} characters"
        ));
    }
    let compatibility = matter.compatibility.as_deref().unwrap_or("unsaid");
    let length = compatibility.chars().count();
    if length == 0 || length > MAX_COMPATIBILITY_CHARS {
        return Err(format!(
            "its compatibility must have 1 to {MAX_COMPATIBILITY_CHARS} characters"
        ));
    }
    Ok(SkillHead {
        name: name.to_owned(),
        description: matter.description.trim().to_owned(),
    })
}

/// The first line that the validator's YAML does not have. Lines of a block of text are passed over.
fn refused_line(matter: &str) -> Option<&str> {
    let mut block: Option<usize> = None;
    for line in matter.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        if block.is_some_and(|of| indent > of || line.trim().is_empty()) {
            continue;
        }
        block = None;
        let content = line.trim_start();
        let content = content.strip_prefix("- ").unwrap_or(content);
        let value = content.split_once(": ").map_or(content, |(_, value)| value);
        let value = value.trim_start();
        if value.starts_with(['|', '>']) {
            block = Some(indent);
        }
        if value.starts_with(REFUSED_BEGINNINGS) {
            return Some(line.trim());
        }
    }
    None
}
