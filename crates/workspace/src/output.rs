//! A command's output within bounds: its start and its end are kept, what lies between is counted
//! and dropped.

use std::collections::VecDeque;

use crate::text::{from_character, whole_characters};

pub(crate) struct HeadTail {
    head: Vec<u8>,
    head_max_bytes: usize,
    tail: VecDeque<u8>,
    tail_max_bytes: usize,
    dropped_bytes: u64,
}

impl HeadTail {
    pub fn new(head_max_bytes: usize, tail_max_bytes: usize) -> Self {
        Self {
            head: Vec::new(),
            head_max_bytes,
            tail: VecDeque::new(),
            tail_max_bytes,
            dropped_bytes: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let room = self
            .head_max_bytes
            .saturating_sub(self.head.len())
            .min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Of a piece longer than the tail only its own end can stay.
        let skipped = rest.len().saturating_sub(self.tail_max_bytes);
        self.tail.extend(&rest[skipped..]);
        let excess = self.tail.len().saturating_sub(self.tail_max_bytes);
        self.tail.drain(..excess);
        self.dropped_bytes += (skipped + excess) as u64;
    }

    /// The text, and whether something was cut out of it.
    pub fn finish(mut self) -> (String, bool) {
        let tail = self.tail.make_contiguous();
        if self.dropped_bytes == 0 {
            self.head.extend_from_slice(tail);
            return (String::from_utf8_lossy(&self.head).into_owned(), false);
        }
        let head = String::from_utf8_lossy(whole_characters(&self.head));
        let tail = String::from_utf8_lossy(from_character(tail));
        (
            format!("{head}\n… [{} bytes cut] …\n{tail}", self.dropped_bytes),
            true,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_and_end_are_kept_whatever_the_pieces() {
        let input: Vec<u8> = (b'a'..=b'z').collect();
        for piece in 1..=input.len() {
            let mut output = HeadTail::new(3, 4);
            input.chunks(piece).for_each(|bytes| output.push(bytes));
            assert_eq!(
                output.finish(),
                ("abc\n… [19 bytes cut] …\nwxyz".to_owned(), true),
                "{piece}"
            );
        }
    }

    #[test]
    fn what_fits_is_untouched() {
        for length in 0..=7 {
            let mut output = HeadTail::new(3, 4);
            output.push(&b"abcdefg"[..length]);
            assert_eq!(output.finish(), ("abcdefg"[..length].to_owned(), false));
        }
    }
}
