//! `/export`: a session as a Markdown file in the workspace, written from its events. If some of
//! those are no longer stored, the server writes what was said.

use std::io;
use std::path::{Path, PathBuf};

use codelab_client::{Client, ClientError, EventData, EventStream};
use codelab_protocol::{SessionEvent, SessionEventBody, SessionId};
use tokio::fs::{self, File};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

use crate::Language;
use crate::texts::CommandText;

use super::block::Block;
use super::requests::RequestOutcome;
use super::transcript::{self, Transcript};

/// Names that are tried before giving up.
const MAX_NAMES: usize = 100;
/// A larger session is not exported.
const MAX_BYTES: usize = 1 << 30;

pub async fn export(
    client: Client,
    session: SessionId,
    folder: PathBuf,
    language: Language,
) -> RequestOutcome {
    let notice = match written(&client, &session, &folder, language).await {
        Ok(path) => language.with(CommandText::Exported, &[&path.display().to_string()]),
        Err(ExportError::Client(error)) => return RequestOutcome::Failed(error),
        Err(ExportError::Io(error)) => {
            language.with(CommandText::NotExported, &[&error.to_string()])
        }
    };
    RequestOutcome::Shown(vec![Block::Notice(notice)])
}

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

async fn written(
    client: &Client,
    session: &SessionId,
    folder: &Path,
    language: Language,
) -> Result<PathBuf, ExportError> {
    let title = client.project_session(session).await?.session.title;
    let (file, path) = new_file(folder, session).await?;
    let mut half = HalfFile {
        path,
        is_whole: false,
    };
    let mut file = BoundedFile { file, bytes: 0 };
    let heading = transcript::heading(title.as_deref(), language);
    file.add(heading.as_bytes()).await?;
    let log = client.project_session_events(session, None, false).await?;
    if !write_log(log, &mut file, language).await? {
        file.empty().await?;
        let mut export = client.export_project_session(session).await?;
        while let Some(piece) = export.next().await? {
            file.add(&piece).await?;
        }
    }
    file.file.flush().await?;
    half.is_whole = true;
    Ok(half.path.clone())
}

/// Whether the log has every event.
async fn write_log(
    mut log: EventStream<SessionEvent>,
    file: &mut BoundedFile,
    language: Language,
) -> Result<bool, ExportError> {
    let mut transcript = Transcript::new(language);
    while let Some(event) = log.next().await {
        let event = event?;
        let text = match event.data {
            EventData::Chunk(event) if matches!(event.body, SessionEventBody::Gap(_)) => {
                return Ok(false);
            }
            EventData::Chunk(event) => transcript.event(&event),
            EventData::Done(done) => transcript.done(done.status),
            EventData::Other(_) => {
                event.id.iter().for_each(|seq| transcript.skip(*seq));
                String::new()
            }
        };
        file.add(text.as_bytes()).await?;
    }
    Ok(true)
}

struct BoundedFile {
    file: File,
    bytes: usize,
}

impl BoundedFile {
    async fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        self.bytes += piece.len();
        if self.bytes > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.write_all(piece).await
    }

    async fn empty(&mut self) -> io::Result<()> {
        self.bytes = 0;
        self.file.flush().await?;
        self.file.set_len(0).await?;
        self.file.rewind().await.map(drop)
    }
}

/// Half a session would pass for a whole one, so it is removed when the export fails or the person
/// leaves before its end.
struct HalfFile {
    path: PathBuf,
    is_whole: bool,
}

impl Drop for HalfFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // What cannot be removed stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Never one that is there.
async fn new_file(folder: &Path, session: &SessionId) -> io::Result<(File, PathBuf)> {
    for number in 1..=MAX_NAMES {
        let name = match number {
            1 => format!("codelab-{session}.md"),
            _ => format!("codelab-{session}-{number}.md"),
        };
        let path = folder.join(name);
        let mut options = fs::OpenOptions::new();
        match options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .await
        {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_export_replaces_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let session = SessionId::parse("chat-1").unwrap();
        let (_, first) = new_file(folder.path(), &session).await.unwrap();
        let (_, second) = new_file(folder.path(), &session).await.unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn half_an_export_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        for is_whole in [true, false] {
            let path = folder.path().join("session.md");
            std::fs::write(&path, "a part").unwrap();
            drop(HalfFile {
                path: path.clone(),
                is_whole,
            });
            assert_eq!(path.exists(), is_whole);
        }
    }
}
