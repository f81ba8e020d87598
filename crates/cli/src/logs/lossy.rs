//! A writer that never makes its caller wait: lines go into a bounded queue, and a thread of its
//! own writes them. Where nobody reads what it writes, lines are dropped and counted; the log says
//! how many as soon as there is room again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// What waits for a reader that stalls.
const MAX_LINES: usize = 8192;
const MAX_BYTES: usize = 4 << 20;
/// How long the end of the process waits for the last lines.
const PARTING: Duration = Duration::from_secs(1);

/// Where lines go; clones share the queue.
#[derive(Clone)]
pub struct LossyLog(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// A line came.
    filled: Condvar,
    /// The last line was written.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
    is_writing: bool,
}

/// Waits for the last lines when it is dropped, but not for long.
#[must_use = "the last lines are lost without it"]
pub struct LogFlush(Arc<Queue>);

impl LossyLog {
    /// Starts the thread that writes to `target`. What it cannot write is gone: there is nowhere to
    /// say so.
    pub fn start(target: impl Write + Send + 'static) -> io::Result<(Self, LogFlush)> {
        let queue = Arc::new(Queue::default());
        let written = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(move || written.write_to(target))?;
        Ok((Self(Arc::clone(&queue)), LogFlush(queue)))
    }
}

impl Queue {
    fn write_to(&self, mut target: impl Write) {
        loop {
            let (line, dropped) = self.next();
            let _ = target.write_all(&line).and_then(|()| target.flush());
            self.written();
            if dropped > 0 {
                // Through the queue like any other line, so that it has the same form.
                tracing::warn!(dropped, "log lines were dropped because nobody read them");
            }
        }
    }

    /// The next line, and how many were dropped, once there is room to say so.
    fn next(&self) -> (Vec<u8>, u64) {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                let is_room = state.lines.len() < MAX_LINES / 2 && state.bytes < MAX_BYTES / 2;
                let dropped = if is_room {
                    std::mem::take(&mut state.dropped)
                } else {
                    0
                };
                return (line, dropped);
            }
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn written(&self) {
        let mut state = self.lock();
        state.is_writing = false;
        if state.lines.is_empty() {
            self.emptied.notify_all();
        }
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.lines.len() >= MAX_LINES || state.bytes + line.len() > MAX_BYTES {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_owned());
        drop(state);
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Never held while something is written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LogFlush {
    fn drop(&mut self) {
        let deadline = Instant::now() + PARTING;
        let mut state = self.0.lock();
        while !state.lines.is_empty() || state.is_writing {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return;
            };
            state = self
                .0
                .emptied
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

impl<'a> MakeWriter<'a> for LossyLog {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine(&self.0)
    }
}

/// One event is written at once, and so is one line.
pub struct LogLine<'a>(&'a Queue);

impl Write for LogLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes a line for each permission.
    struct Stalling {
        allowed: mpsc::Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stalling {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(io::Error::other)?;
            self.taken.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stalls_costs_a_bounded_queue_and_nobody_waits() {
        let (allow, allowed) = mpsc::channel();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (lossy, rest) = LossyLog::start(Stalling {
            allowed,
            taken: Arc::clone(&taken),
        })
        .unwrap();
        let count = MAX_LINES + 100;
        for number in 0..count {
            lossy
                .make_writer()
                .write_all(format!("{number}\n").as_bytes())
                .unwrap();
        }
        let dropped = lossy.0.lock().dropped;
        // One may be on its way to the reader.
        assert!((99..=100).contains(&dropped), "{dropped}");
        (0..count).for_each(|_| allow.send(()).unwrap());
        drop(rest);
        let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
        let lines: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(
            lines,
            (0..count - dropped as usize).collect::<Vec<_>>(),
            "what was kept comes in order"
        );
        assert_eq!(lossy.0.lock().dropped, 0, "it was said");
    }

    #[test]
    fn long_lines_count_by_their_bytes() {
        let (_allow, allowed) = mpsc::channel();
        let (lossy, _rest) = LossyLog::start(Stalling {
            allowed,
            taken: Arc::default(),
        })
        .unwrap();
        let line = vec![b'x'; 1 << 20];
        (0..10).for_each(|_| lossy.make_writer().write_all(&line).unwrap());
        let state = lossy.0.lock();
        assert!(
            state.bytes <= MAX_BYTES && state.dropped >= 5,
            "{} bytes, {} dropped",
            state.bytes,
            state.dropped
        );
    }
}
