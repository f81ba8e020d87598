//! Tests against real shells: a random line that passes runs nothing that the parser took for text,
//! and writes nothing outside its workspace.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use codelab_policy::{Policy, Verdict};

use crate::{execute, next};

const SHELLS: &[&str] = &[
    "/bin/sh",
    "/bin/bash",
    "/bin/dash",
    "/bin/zsh",
    "/bin/busybox",
];
const MAX_GENERATED: usize = 300_000;
const MAX_RUN: usize = 300;

/// `evil` is a program that leaves a mark; `ls` and `cat` do nothing.
const STRUCTURE: &[&str] = &[
    "evil",
    "evil",
    "evil",
    "evil",
    "ls",
    "ls",
    "cat",
    "echo",
    " ",
    " ",
    " ",
    " ",
    " ",
    "\n",
    "\n",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "\\\n",
    "#",
    " #",
    "$",
    "$(",
    "(",
    ")",
    "{",
    "}",
    "{ ",
    "; }",
    "`",
    "`",
    "<<EOF",
    "<<'EOF'",
    "<<-EOF",
    "<<\"E\"",
    "EOF",
    "\nEOF\n",
    "\nE\n",
    "\t",
    "\n\tEOF\n",
    "if ",
    "; then ",
    "; fi",
    "for x in ",
    "; do ",
    "; done",
    "case a in ",
    "a) ",
    ";; ",
    "esac",
    "! ",
    "<",
    ">x.txt",
    "2>&1",
    "<<<",
    "${x}",
    "$x",
    "$((1))",
    "*",
    "[",
    "]",
    "~",
    "=",
    "!",
    "-n",
    "a",
    "\"$(",
    ")\"",
];

const WRITES: &[&str] = &[
    "echo a",
    "cat",
    "touch ",
    "mkdir ",
    "mkdir -p ",
    "cp ",
    "mv ",
    "tee ",
    "cd ",
    "cd ",
    ">",
    ">>",
    ">|",
    "&>",
    ">&",
    "<>",
    " ",
    " ",
    " ",
    ";",
    "&&",
    "|",
    "\n",
    "(",
    ")",
    "..",
    "../",
    "/",
    ".",
    "sub",
    "sub/",
    "sub",
    ".git",
    ".git/",
    "a.txt",
    "b.txt",
    "a.txt",
    "~",
    "~/",
    "$HOME",
    "'",
    "\"",
    "\\",
    "{a,b}",
    "*",
    "?",
    "for x in ",
    "; do ",
    "; done",
    "$x",
    "OUTSIDE/",
    "-t",
];

#[test]
fn nothing_hidden_runs_in_a_line_that_passes() {
    let place = Place::new().expect("a place to run in");
    for shell in place.shells() {
        place.run(shell, "evil").expect("the shell starts");
        assert!(
            place.mark().exists(),
            "{shell} does not run the marking program"
        );
        fs::remove_file(place.mark()).expect("the mark can be removed");
    }
    let tried = place.try_lines(
        STRUCTURE,
        |line| line.contains("evil"),
        |shell, line| {
            assert!(
                !place.mark().exists(),
                "{shell} ran the hidden command of {line:?}"
            );
        },
    );
    assert!(tried >= MAX_RUN / 2, "only {tried} lines passed");
}

#[test]
fn nothing_outside_is_written_by_a_line_that_passes() {
    let place = Place::new().expect("a place to run in");
    place
        .run("/bin/sh", "touch ../probe")
        .expect("the shell starts");
    assert_ne!(
        place.guarded(),
        place.untouched,
        "a write outside is not noticed"
    );
    fs::remove_file(place.folder.path().join("probe")).expect("the probe can be removed");
    let writes =
        |line: &str| line.contains(['>', '/']) || line.contains("touch") || line.contains("mkdir");
    let tried = place.try_lines(WRITES, writes, |shell, line| {
        assert_eq!(
            place.guarded(),
            place.untouched,
            "{shell} wrote where it must not: {line:?}"
        );
    });
    assert!(tried >= MAX_RUN / 2, "only {tried} lines passed");
}

/// A workspace with a few files, the folders around it, and the programs that lines may start.
struct Place {
    folder: tempfile::TempDir,
    untouched: Vec<PathBuf>,
}

impl Place {
    fn new() -> io::Result<Self> {
        let mut place = Self {
            folder: tempfile::tempdir()?,
            untouched: Vec::new(),
        };
        let root = place.folder.path();
        for directory in ["programs", "home", "work/sub", "work/.git/hooks"] {
            fs::create_dir_all(root.join(directory))?;
        }
        for file in ["work/a.txt", "work/sub/a.txt", "work/.git/config"] {
            fs::write(root.join(file), "a")?;
        }
        let mark = format!("#!/bin/sh\n: > '{}'\n", place.mark().display());
        for (name, script) in [
            ("evil", mark.as_str()),
            ("ls", "#!/bin/sh\n"),
            ("cat", "#!/bin/sh\n"),
        ] {
            let path = root.join("programs").join(name);
            fs::write(&path, script)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        for name in ["touch", "mkdir", "cp", "mv", "tee"] {
            let real = ["/bin", "/usr/bin"]
                .iter()
                .map(|folder| Path::new(folder).join(name))
                .find(|path| path.exists());
            symlink(
                real.ok_or(io::ErrorKind::NotFound)?,
                root.join("programs").join(name),
            )?;
        }
        place.untouched = place.guarded();
        Ok(place)
    }

    fn mark(&self) -> PathBuf {
        self.folder.path().join("mark")
    }

    fn shells(&self) -> impl Iterator<Item = &'static str> {
        SHELLS
            .iter()
            .copied()
            .filter(|shell| Path::new(shell).exists())
    }

    /// What lies outside the workspace or is protected in it.
    fn guarded(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.folder.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let path = entry.path();
                let inside = path.starts_with(self.folder.path().join("work"));
                let protected = path
                    .components()
                    .any(|component| component.as_os_str() == ".git");
                if path.is_dir() && !path.is_symlink() {
                    open.push(path.clone());
                }
                if !inside || protected {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }

    fn run(&self, shell: &str, line: &str) -> io::Result<()> {
        let root = self.folder.path();
        let mut command = Command::new(shell);
        if shell.ends_with("busybox") {
            command.arg("sh");
        }
        command.arg("-c").arg(line).current_dir(root.join("work"));
        command
            .env_clear()
            .env("PATH", root.join("programs"))
            .env("HOME", root.join("home"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        Ok(())
    }

    /// Runs random lines that pass in every shell and checks after each. Returns how many there
    /// were.
    fn try_lines(
        &self,
        tokens: &[&str],
        wanted: impl Fn(&str) -> bool,
        check: impl Fn(&str, &str),
    ) -> usize {
        let policy = Policy::default();
        let outside = format!("{}/", self.folder.path().display());
        let mut seed = 7;
        let mut tried = 0;
        for _ in 0..MAX_GENERATED {
            let length = 3 + next(&mut seed) % 12;
            let line: String = (0..length)
                .map(|_| tokens[next(&mut seed) % tokens.len()])
                .collect();
            let line = line.replace("OUTSIDE/", &outside);
            if !wanted(&line) || policy.review(&execute(&line, None)) != Verdict::Allow {
                continue;
            }
            for shell in self.shells() {
                self.run(shell, &line).expect("the shell starts");
                check(shell, &line);
            }
            tried += 1;
            if tried == MAX_RUN {
                break;
            }
        }
        tried
    }
}
