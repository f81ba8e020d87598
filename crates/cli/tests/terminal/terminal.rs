//! A real pseudo-terminal with the `codelab` program in it, read the way a person reads it: as a
//! screen.

use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Longer than anything here takes on a loaded machine; what is not on the screen by then does not
/// come.
const DEADLINE: Duration = Duration::from_secs(90);
/// High enough for a whole session, so that what went to the scrollback is still seen.
const ROWS: NonZero<u16> = NonZero::new(220).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(100).unwrap();

pub struct Terminal {
    shared: Arc<Shared>,
    keys: Box<dyn std::io::Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    /// Closing it hangs up on the program.
    _master: Box<dyn MasterPty + Send>,
}

struct Shared {
    screen: Mutex<vt100::Parser>,
    changed: Condvar,
}

impl Terminal {
    /// Nothing of this test's own environment but the search path.
    pub fn start(arguments: &[&str], settings: &[(&str, &str)], folder: &Path) -> Self {
        let size = PtySize {
            rows: ROWS.get(),
            cols: COLUMNS.get(),
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_codelab"));
        command.args(arguments);
        command.cwd(folder);
        command.env_clear();
        for (name, value) in [
            ("TERM", "xterm-256color"),
            ("PATH", &std::env::var("PATH").unwrap()),
        ] {
            command.env(name, value);
        }
        for (name, value) in settings {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let shared = Arc::new(Shared {
            screen: Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)),
            changed: Condvar::new(),
        });
        let (mut output, seen) = (pair.master.try_clone_reader().unwrap(), Arc::clone(&shared));
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                seen.screen.lock().unwrap().process(&buffer[..length]);
                seen.changed.notify_all();
            }
        });
        Self {
            shared,
            keys: pair.master.take_writer().unwrap(),
            child,
            _master: pair.master,
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Types a line and sends it.
    pub fn say(&mut self, text: &str) {
        self.press(text);
        self.press("\r");
    }

    /// Decides about what waits, once keys do that.
    #[track_caller]
    pub fn decide(&mut self, key: &str) {
        self.wait_until("a key decides", |screen| {
            screen.lines().any(|line| line.trim() == "?")
        });
        self.press(key);
    }

    pub fn screen(&self) -> String {
        self.shared.screen.lock().unwrap().screen().contents()
    }

    /// The screen once this text is on it.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?} is shown"), |screen| {
            screen.contains(text)
        })
    }

    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        let mut parser = self.shared.screen.lock().unwrap();
        loop {
            let screen = parser.screen().contents();
            if is_so(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never: {what}\n{screen}");
            parser = self.shared.changed.wait_timeout(parser, left).unwrap().0;
        }
    }

    /// Waits until the program has ended by itself; its exit code.
    pub fn ended(mut self) -> u32 {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(
                Instant::now() < deadline,
                "the program does not end\n{}",
                self.screen()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
