//! A person takes back what an agent did, and gives it back, while the server or the tool runner dies
//! at every step. Afterwards it is done, or it is not done and can be asked for again. Whoever asks is
//! told which files are which, and what a hand did is there in every case.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use codelab_client::{ClientError, EventData};
use codelab_fakemodel::Reply;
use codelab_protocol::{
    MessageId, RewindId, RewindScope, RewindSession, Rewound, SessionEventBody,
};
use codelab_testkit::eventually;
use serde_json::json;

use crate::lab::{Lab, Person, Process};
use crate::safe_writes::edits_pass;

/// Where the tool runner dies, and how often it passes there: the rewind has three files to change, one
/// to leave and a folder to remove.
const PLACES_OF_THE_TOOL_RUNNER: [(&str, u32); 12] = [
    ("call_claimed", 1),
    ("call_noted", 1),
    ("call_started", 1),
    ("rewind_planned", 1),
    ("rewind_kept", 4),
    ("rewind_begun", 4),
    ("rewind_exchanged", 2),
    ("rewind_applied", 4),
    ("rewind_done", 4),
    ("rewind_finished", 1),
    ("call_finished", 1),
    ("result_sent", 1),
];
/// Where the server dies: it stores that it took the session up, the wish, the claim and the result.
const PLACES_OF_THE_SERVER: [&str; 3] = ["before_commit", "after_commit", "after_show"];
const COMMITS: u32 = 4;

type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let mode = std::fs::metadata(&path).unwrap().mode() & 0o7777;
            if path.is_dir() {
                found.insert(name, (mode, Vec::new()));
                folders.push(path);
            } else {
                found.insert(name, (mode, std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// What is asked for.
#[derive(Debug, Clone)]
enum Wish {
    Rewind,
    Undo(RewindId),
}

struct Scene {
    lab: Lab,
    person: Person,
    to: MessageId,
    /// As the rewind finds the files, and as it leaves them.
    now: Tree,
    rewound: Tree,
}

impl Scene {
    /// An agent wrote, then wrote again. Afterwards a hand changed a file and deleted another.
    async fn new(lab: Lab) -> Self {
        let person = lab.person().await;
        edits_pass(&person.client, &person.session).await;
        let write = |path: &str, content: &str| {
            let arguments = json!({"path": path, "content": content, "create_dirs": true});
            lab.model.reply(Reply::tool_call("write_file", arguments));
        };
        for name in ["changed.txt", "by-hand.txt", "deleted.txt"] {
            write(name, "one");
        }
        says(&person, "begin").await;
        let path = |name: &str| lab.workspace.join(name);
        let mode = std::fs::Permissions::from_mode(0o751);
        std::fs::set_permissions(path("changed.txt"), mode).unwrap();
        std::fs::write(path("untouched.bin"), [0, 159, 255]).unwrap();
        let mut rewound = tree(&lab.workspace);
        for name in ["changed.txt", "by-hand.txt", "deleted.txt", "new/new.txt"] {
            write(name, "two");
        }
        says(&person, "go on").await;
        std::fs::write(path("by-hand.txt"), "by hand").unwrap();
        std::fs::remove_file(path("deleted.txt")).unwrap();
        let now = tree(&lab.workspace);
        assert_eq!(now[Path::new("new/new.txt")].1, b"two");
        let by_hand = Path::new("by-hand.txt");
        rewound.insert(by_hand.to_owned(), now[by_hand].clone());
        let said = person.client.project_session_messages(
            &person.session,
            Some(codelab_protocol::Role::User),
            None,
            None,
        );
        let said = said.await.unwrap().messages;
        let to = said.into_iter().find(|said| said.content == "go on");
        Self {
            to: to.unwrap().message_id,
            lab,
            person,
            now,
            rewound,
        }
    }

    fn body(&self, wish: &Wish) -> RewindSession {
        match wish {
            Wish::Rewind => RewindSession {
                to_message_id: Some(self.to.clone()),
                scope: Some(RewindScope::Both),
                undo: None,
            },
            Wish::Undo(id) => RewindSession {
                undo: Some(id.clone()),
                ..RewindSession::default()
            },
        }
    }

    fn asks(&self, wish: &Wish) -> tokio::task::JoinHandle<Asked> {
        let (client, session) = (self.person.client.clone(), self.person.session.clone());
        let body = self.body(wish);
        tokio::spawn(async move { client.rewind_session(&session, &body).await })
    }

    /// Asks until it is done. Whoever is not done has changed nothing.
    async fn settled(&self, wish: &Wish, at: &str) -> Rewound {
        let before = match wish {
            Wish::Rewind => &self.now,
            Wish::Undo(_) => &self.rewound,
        };
        eventually(at, async || match self.asks(wish).await.unwrap() {
            Ok(Some(rewound)) => {
                let Some(error) = &rewound.error else {
                    return Ok(rewound);
                };
                assert_eq!(tree(&self.lab.workspace), *before, "{at}: {rewound:?}");
                Err(error.clone())
            }
            Err(error) if matches!(error.detail("reason"), Some("rewound" | "undone")) => {
                Ok(self.last_told().await)
            }
            other => Err(format!("{other:?}")),
        })
        .await
    }

    /// What the log says of the last rewind, or of its undoing.
    async fn last_told(&self) -> Rewound {
        let Person { client, session } = &self.person;
        let mut events = client
            .project_session_events(session, None, false)
            .await
            .unwrap();
        let mut last = None;
        while let Some(event) = events.next().await {
            if let EventData::Chunk(event) = event.unwrap().data
                && let SessionEventBody::Rewound(rewound) = event.body
            {
                last = Some(*rewound);
            }
        }
        last.expect("the log tells of a rewind that was done")
    }

    /// Files, messages and what the person was told agree.
    async fn check(&self, wish: &Wish, told: &Rewound, at: &str) {
        let is_undo = matches!(wish, Wish::Undo(_));
        let expected = match is_undo {
            false => &self.rewound,
            true => &self.now,
        };
        assert_eq!(tree(&self.lab.workspace), *expected, "{at}: {told:?}");
        let mut restored = told.restored.clone();
        restored.sort_unstable();
        assert_eq!(
            restored,
            ["changed.txt", "deleted.txt", "new/new.txt"],
            "{at}: {told:?}"
        );
        let left: Vec<_> = told.left.iter().map(|left| left.path.as_str()).collect();
        let expected: &[&str] = match is_undo {
            false => &["by-hand.txt"],
            true => &[],
        };
        assert_eq!(left, expected, "{at}: {told:?}");
        assert_eq!((told.undone, &told.error), (is_undo, &None), "{at}");
        let Person { client, session } = &self.person;
        let said = client.project_session_messages(session, None, None, None);
        let said = said.await.unwrap().messages;
        let first = said.iter().position(|said| said.message_id == self.to);
        let (before, after) = said.split_at(first.unwrap());
        assert!(before.iter().all(|said| said.rewound.is_none()), "{at}");
        let mark = (!is_undo).then_some(&told.rewind_id);
        assert!(
            after.iter().all(|said| said.rewound.as_ref() == mark),
            "{at}: {said:?}"
        );
    }

    /// The tool runner dies while it takes files back, and another one comes.
    async fn tool_runner_dies(&self, wish: &Wish, failpoints: &[&str]) -> Rewound {
        let at = format!("{wish:?} with a tool runner that dies at {failpoints:?}");
        let (first, others) = failpoints.split_first().unwrap();
        let armed = self.lab.work_armed(first).await;
        let asking = self.asks(wish);
        armed.dies().await;
        for failpoint in others {
            // It dies as soon as it goes on with what the one before it left.
            Process::spawn(self.lab.work_command(failpoint))
                .dies()
                .await;
        }
        let work = self.lab.work().await;
        let told = match asking.await.unwrap() {
            Ok(Some(told)) if told.error.is_none() => told,
            Ok(Some(told)) => {
                let before = match wish {
                    Wish::Rewind => &self.now,
                    Wish::Undo(_) => &self.rewound,
                };
                assert_eq!(tree(&self.lab.workspace), *before, "{at}: {told:?}");
                self.settled(wish, &at).await
            }
            other => panic!("{at}: {other:?}"),
        };
        self.check(wish, &told, &at).await;
        work.kill().await;
        told
    }

    /// The server dies while somebody waits for the rewind, and comes again.
    async fn server_dies(
        &self,
        server: Process,
        wish: &Wish,
        failpoint: &str,
    ) -> (Rewound, Process) {
        let at = format!("{wish:?} with a server that dies at {failpoint}");
        server.kill().await;
        let armed = self.lab.serve_armed(failpoint).await;
        let asking = async {
            // Until the tool runner is back.
            while let Err(error) = self.asks(wish).await.unwrap() {
                if error.detail("reason") != Some("no_client") {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::join!(asking, armed.dies());
        let server = self.lab.serve(&[]).await;
        let told = self.settled(wish, &at).await;
        self.check(wish, &told, &at).await;
        (told, server)
    }
}

type Asked = Result<Option<Rewound>, ClientError>;

/// Says it, and waits for the end of the turn.
async fn says(person: &Person, text: &str) {
    let Person { client, session } = person;
    person.says(text).await;
    eventually("the turn ends", async || {
        let found = client.project_session(session).await.unwrap();
        match found.busy {
            false => Ok(()),
            true => Err(found.status),
        }
    })
    .await;
}

#[tokio::test]
async fn a_rewind_and_its_undoing_survive_the_death_of_the_tool_runner_at_every_step() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let work = lab.work().await;
    let scene = Scene::new(lab).await;
    work.kill().await;
    for (place, passes) in PLACES_OF_THE_TOOL_RUNNER {
        for pass in 1..=passes {
            let failpoint = format!("{place}:{pass}");
            let told = scene.tool_runner_dies(&Wish::Rewind, &[&failpoint]).await;
            let undo = Wish::Undo(told.rewind_id);
            scene.tool_runner_dies(&undo, &[&failpoint]).await;
        }
    }
    // The next one dies as well, further on.
    let failpoints = ["rewind_begun:2", "rewind_applied:1", "result_sent:1"];
    scene.tool_runner_dies(&Wish::Rewind, &failpoints).await;
}

#[tokio::test]
async fn a_rewind_and_its_undoing_survive_the_death_of_the_server_at_every_step() {
    let lab = Lab::new().await;
    let mut server = lab.serve(&[]).await;
    let _work = lab.work().await;
    let scene = Scene::new(lab).await;
    for place in PLACES_OF_THE_SERVER {
        for pass in 1..=COMMITS {
            let failpoint = format!("{place}:{pass}");
            let (told, again) = scene.server_dies(server, &Wish::Rewind, &failpoint).await;
            let undo = Wish::Undo(told.rewind_id);
            (_, server) = scene.server_dies(again, &undo, &failpoint).await;
        }
    }
}

#[tokio::test]
async fn a_tool_runner_that_comes_back_late_says_which_files_are_which() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let work = lab.work().await;
    let scene = Scene::new(lab).await;
    work.kill().await;
    let armed = scene.lab.work_armed("rewind_begun:2").await;
    let asking = scene.asks(&Wish::Rewind);
    armed.dies().await;
    // The lease ends, and nobody knows what became of the files.
    let told = asking.await.unwrap().unwrap().unwrap();
    let error = told.error.as_deref().unwrap_or_default();
    assert!(
        error.contains("says then which files are which"),
        "{told:?}"
    );
    assert_eq!((told.messages, told.restored.len()), (0, 0), "{told:?}");

    let _work = scene.lab.work().await;
    let late = eventually("the tool runner says it", async || {
        let told = scene.last_told().await;
        match told.error {
            None => Ok(told),
            Some(error) => Err(error),
        }
    })
    .await;
    assert_eq!(late.rewind_id, told.rewind_id);
    assert_eq!(tree(&scene.lab.workspace), scene.rewound, "{late:?}");
    assert_eq!(late.restored.len(), 3, "{late:?}");
    assert_eq!(late.left[0].path, "by-hand.txt", "{late:?}");
    let undo = Wish::Undo(told.rewind_id);
    let undone = scene.settled(&undo, "undone").await;
    scene.check(&undo, &undone, "undone").await;
}
