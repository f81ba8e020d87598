//! Commands of the person's own: Markdown files in `$XDG_CONFIG_HOME/codelab/commands`. `/name words`
//! sends the file `name.md` as a message, with the words in place of `$ARGUMENTS`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

const ARGUMENTS: &str = "$ARGUMENTS";
const ENDING: &str = "md";
const MAX_COMMANDS: usize = 200;
const MAX_BYTES: u64 = 256 << 10;

/// Where the commands are, if there is a home folder.
pub fn folder(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| {
        let value = variable(name).filter(|value| Path::new(value).is_absolute());
        value.map(PathBuf::from)
    };
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("codelab/commands"))
}

/// The names of the commands, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let name = |path: PathBuf| {
        let is_command = path.extension().is_some_and(|ending| ending == ENDING);
        let name = path.file_stem()?.to_str()?.to_owned();
        (is_command && is_name(&name)).then_some(name)
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut names: Vec<String> = paths.filter_map(name).take(MAX_COMMANDS).collect();
    names.sort();
    names
}

/// The message of a command; `None` if there is no such command.
pub fn message(folder: &Path, name: &str, arguments: &str) -> Option<std::io::Result<String>> {
    if !is_name(name) {
        return None;
    }
    let path = folder.join(format!("{name}.{ENDING}"));
    if !path.is_file() {
        return None;
    }
    Some(read(&path).map(|text| filled(&text, arguments)))
}

/// Letters that can stand in a command's name, so that no path can.
pub fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_letter)
}

/// The name of the command that a file of the folder is.
pub fn name_in(path: &str) -> Option<&str> {
    let (_, file) = path.rsplit_once('/')?;
    let name = file.strip_suffix(".md")?;
    is_name(name).then_some(name)
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(std::io::ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}

/// Words for which the text has no place stand below it.
pub fn filled(text: &str, arguments: &str) -> String {
    let text = without_front_matter(text).trim();
    match (text.contains(ARGUMENTS), arguments) {
        (true, _) => text.replace(ARGUMENTS, arguments),
        (false, "") => text.to_owned(),
        (false, _) => format!("{text}\n\n{arguments}"),
    }
}

fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("---\n") else {
        return text;
    };
    rest.split_once("\n---\n").map_or(text, |(_, below)| below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_text_is_its_file_with_the_words_in_place() {
        let home = tempfile::tempdir().unwrap();
        let set = home.path().to_str().unwrap().to_owned();
        let folder = folder(|name| (name == "HOME").then(|| set.clone())).unwrap();
        assert_eq!(names(&folder), Vec::<String>::new());
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [
            (
                "fix.md",
                "---\ndescription: x\n---\nFix $ARGUMENTS, then test $ARGUMENTS.\n",
            ),
            ("review.md", "Review this.\n"),
            ("no name.md", ""),
            ("notes.txt", ""),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        assert_eq!(names(&folder), ["fix", "review"]);
        for (name, arguments, expected) in [
            ("fix", "a.rs", Some("Fix a.rs, then test a.rs.")),
            ("review", "", Some("Review this.")),
            ("review", "all of it", Some("Review this.\n\nall of it")),
            ("other", "", None),
            ("../commands/fix", "", None),
        ] {
            let message = message(&folder, name, arguments).map(Result::unwrap);
            assert_eq!(message.as_deref(), expected, "{name} {arguments}");
        }
    }
}
