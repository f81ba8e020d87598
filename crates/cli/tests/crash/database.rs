//! Where the server under test keeps its data.

use std::path::Path;

use codelab_testkit::OwnDatabase;
use tempfile::TempDir;

pub struct Place {
    folder: TempDir,
    postgres: Option<OwnDatabase>,
}

impl Place {
    pub fn sqlite() -> Self {
        Self {
            folder: kept_folder(),
            postgres: None,
        }
    }

    /// `server_url` names any database of the server; a new one is made beside it.
    pub async fn postgres(server_url: &str, name: String) -> Self {
        let own = OwnDatabase::beside(server_url, name).await;
        Self {
            folder: kept_folder(),
            postgres: Some(own),
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn database_url(&self) -> Option<&str> {
        self.postgres.as_ref().map(|own| own.url.as_str())
    }

    /// Where the data can be looked at.
    pub fn description(&self) -> String {
        let folder = self.folder.path().display();
        match &self.postgres {
            Some(own) => format!("{folder} and the database {}", own.name),
            None => folder.to_string(),
        }
    }

    /// Takes the data away. Not called after a failure, so that it can be looked at.
    pub async fn remove(mut self) {
        self.folder.disable_cleanup(false);
        if let Some(own) = &self.postgres {
            own.remove().await;
        }
    }
}

fn kept_folder() -> TempDir {
    let mut folder = tempfile::Builder::new()
        .prefix("codelab-crash-")
        .tempdir()
        .expect("a temporary folder");
    folder.disable_cleanup(true);
    folder
}
