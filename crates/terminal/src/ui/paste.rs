//! A pasted path of an image becomes an attachment: terminals paste the path of a file that is
//! dropped on them. The person named the file, so it may lie outside the workspace; but only an image
//! is ever read, and the line shows its name before it is sent.

use std::path::{Path, PathBuf};

use codelab_protocol::{MAX_ATTACHMENT_NAME_CHARS, MAX_IMAGE_BYTES, NewAttachment, image_type};
use tokio::io::AsyncReadExt as _;

use super::files::FileRead;
use super::mention;

/// A longer paste is text.
const MAX_PATH_BYTES: usize = 4096;
/// As much as tells what kind of image it is.
const HEAD_BYTES: usize = 16;
/// The oldest are forgotten.
const MAX_PASTED: usize = 64;
const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// Images that were pasted, by the names that stand in the line.
#[derive(Debug, Default)]
pub struct PastedImages(Vec<PastedImage>);

#[derive(Debug)]
struct PastedImage {
    name: String,
    path: PathBuf,
}

impl PastedImages {
    /// What the line gets instead of a paste that is exactly the path of an image.
    pub async fn take(&mut self, paste: &str, root: &Path) -> Option<String> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        for path in paths(paste) {
            let path = match (path.strip_prefix("~"), &home) {
                (Ok(rest), Some(home)) => home.join(rest),
                _ => root.join(path),
            };
            if let Some(path) = image_at(&path).await {
                return Some(format!("{} ", self.mention(path)));
            }
        }
        None
    }

    /// Each name stands for one file.
    fn mention(&mut self, path: PathBuf) -> String {
        if let Some(known) = self.0.iter().find(|known| known.path == path) {
            return mention::name(&known.name);
        }
        let name = name_of(&path);
        let numbered = (2..).map(|number| with_number(&name, number));
        let is_free = |name: &String| !self.0.iter().any(|known| known.name == *name);
        let name = std::iter::once(name.clone()).chain(numbered).find(is_free);
        let name = name.unwrap_or_default();
        if self.0.len() >= MAX_PASTED {
            self.0.remove(0);
        }
        let mentioned = mention::name(&name);
        self.0.push(PastedImage { name, path });
        mentioned
    }

    fn find(&self, name: &str) -> Option<&PastedImage> {
        self.0.iter().find(|known| known.name == name)
    }

    /// The images that a line names.
    pub fn named_in(&self, line: &str) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut named = mention::mentioned(line);
        named.retain(|name| self.find(name).is_some());
        named
    }

    /// The image of this name as it is now; `None` if no such image was pasted.
    pub(super) async fn read(&self, name: &str) -> Option<FileRead> {
        let PastedImage { name, path } = self.find(name)?;
        let content = match content(path).await {
            Ok(content) => content,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Some(FileRead::Missing);
            }
            Err(error) => return Some(FileRead::Refused(Some(error.to_string()))),
        };
        if content.len() as u64 > MAX_IMAGE_BYTES {
            let why = format!("it is larger than {} KiB", MAX_IMAGE_BYTES >> 10);
            return Some(FileRead::Refused(Some(why)));
        }
        Some(match image_type(&content) {
            Some(media_type) => FileRead::Image(NewAttachment::new(name, media_type, &content)),
            None => FileRead::Refused(Some("it is no image any more".to_owned())),
        })
    }
}

async fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = tokio::fs::File::open(path).await?;
    let mut content = Vec::new();
    // One byte more shows that it is too large.
    file.take(MAX_IMAGE_BYTES + 1)
        .read_to_end(&mut content)
        .await?;
    Ok(content)
}

/// The path if an image is there. Anything but an ordinary file is left alone: opening a pipe would
/// wait for ever.
async fn image_at(path: &Path) -> Option<PathBuf> {
    let is_file = tokio::fs::metadata(path).await.ok()?.is_file();
    if !is_file {
        return None;
    }
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let file = tokio::fs::File::open(path).await.ok()?;
    file.take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .await
        .ok()?;
    image_type(&head).map(|_| path.to_owned())
}

/// What a paste can mean as a path: as it is, without quotes, from a `file://` address, or without
/// the backslashes that a shell would need.
fn paths(paste: &str) -> Vec<PathBuf> {
    let text = paste.trim();
    let has_ending = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
    };
    if text.is_empty() || text.len() > MAX_PATH_BYTES || text.contains(char::is_control) {
        return Vec::new();
    }
    let quoted = ['\'', '"'].into_iter().find_map(|quote| {
        let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inside.contains(quote)).then_some(inside)
    });
    let text = quoted.unwrap_or(text);
    let found = match text.strip_prefix("file://") {
        Some(address) => {
            let path = address.strip_prefix("localhost").unwrap_or(address);
            vec![percent_decoded(path)]
        }
        None if quoted.is_some() => vec![Some(text.to_owned())],
        None => vec![Some(text.to_owned()), unescaped(text)],
    };
    let found = found.into_iter().flatten().map(PathBuf::from);
    found.filter(has_ending).collect()
}

/// `None` where no backslash stands.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next()),
            letter => out.push(letter),
        }
    }
    text.contains('\\').then_some(out)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = match first {
            b'%' => behind
                .get(..2)
                .and_then(|code| std::str::from_utf8(code).ok()),
            _ => None,
        };
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The file's own name, so that its folder is told to nobody. A quote would end the name in a line.
fn name_of(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str());
    let kept = name.unwrap_or("image").chars().filter(|c| *c != '"');
    kept.take(MAX_ATTACHMENT_NAME_CHARS).collect()
}

/// `shot-2.png`.
fn with_number(name: &str, number: usize) -> String {
    match name.rsplit_once('.') {
        Some((stem, ending)) => format!("{stem}-{number}.{ending}"),
        None => format!("{name}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    #[tokio::test]
    async fn a_paste_that_is_the_path_of_an_image_becomes_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["shot.png", "my shot (1).png", "é.webp"] {
            std::fs::write(at(name), PNG).unwrap();
        }
        std::fs::write(at("notes.png"), "no image").unwrap();
        std::fs::write(at("image.txt"), PNG).unwrap();
        std::fs::create_dir(at("folder.png")).unwrap();
        std::fs::write(root.path().join("here.png"), PNG).unwrap();
        let place = folder.path().display().to_string();
        for (paste, expected) in [
            (format!("{place}/shot.png"), Some("@shot.png ")),
            (format!(" {place}/shot.png\n"), Some("@shot.png ")),
            (format!("'{place}/shot.png' "), Some("@shot.png ")),
            (format!("\"{place}/shot.png\""), Some("@shot.png ")),
            (format!("file://{place}/shot.png"), Some("@shot.png ")),
            (
                format!("file://localhost{place}/my%20shot%20(1).png"),
                Some("@\"my shot (1).png\" "),
            ),
            (
                format!("{place}/my\\ shot\\ \\(1\\).png"),
                Some("@\"my shot (1).png\" "),
            ),
            (
                format!("{place}/my shot (1).png"),
                Some("@\"my shot (1).png\" "),
            ),
            (format!("file://{place}/%C3%A9.webp"), Some("@é.webp ")),
            ("here.png".to_owned(), Some("@here.png ")),
            (format!("look at {place}/shot.png"), None),
            (format!("{place}/shot.png\n{place}/shot.png"), None),
            (format!("{place}/notes.png"), None),
            (format!("{place}/image.txt"), None),
            (format!("{place}/folder.png"), None),
            (format!("{place}/missing.png"), None),
            ("/dev/stdin.png".to_owned(), None),
            (String::new(), None),
        ] {
            let mut pasted = PastedImages::default();
            let taken = pasted.take(&paste, root.path()).await;
            assert_eq!(taken.as_deref(), expected, "{paste}");
        }
    }

    #[tokio::test]
    async fn two_files_of_one_name_keep_apart_and_only_what_the_line_names_goes_along() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut pasted = PastedImages::default();
        for (folder, expected) in [(&one, "@a.png "), (&two, "@a-2.png "), (&one, "@a.png ")] {
            let path = folder.path().join("a.png");
            std::fs::write(&path, PNG).unwrap();
            let paste = path.display().to_string();
            let taken = pasted.take(&paste, folder.path()).await;
            assert_eq!(taken.as_deref(), Some(expected));
        }
        assert_eq!(pasted.named_in("compare @a-2.png with @b.png"), ["a-2.png"]);
        assert_eq!(pasted.named_in("no more"), Vec::<String>::new());
        assert!(pasted.read("b.png").await.is_none());
        let Some(FileRead::Image(image)) = pasted.read("a-2.png").await else {
            panic!("an image was pasted");
        };
        assert_eq!(image, NewAttachment::new("a-2.png", "image/png", PNG));
        // It became something else since.
        std::fs::write(two.path().join("a.png"), "text").unwrap();
        let read = pasted.read("a-2.png").await;
        assert!(matches!(read, Some(FileRead::Refused(_))));
    }
}
