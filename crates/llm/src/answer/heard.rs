//! For the tests of both wires: reads a body that comes in pieces, and checks that the cuts between
//! them do not matter.

use super::{AnswerFormat, AnswerReader, Defect, ModelAnswer, Progress};
use crate::StreamedPart;

pub const MAX_OUTPUT_BYTES: usize = 2000;

/// An answer, and what was reported while it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct HeardAnswer {
    pub answer: ModelAnswer,
    pub text: String,
    pub reasoning: String,
}

pub fn read<'a>(
    format: Box<dyn AnswerFormat>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<HeardAnswer, Defect> {
    let mut reader = AnswerReader::new(format, MAX_OUTPUT_BYTES);
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut hear = |part: StreamedPart<'_>| match part {
        StreamedPart::Text(piece) => text.push_str(piece),
        StreamedPart::Reasoning(piece) => reasoning.push_str(piece),
        StreamedPart::ToolCall => {}
        other => panic!("{other:?}"),
    };
    for piece in pieces {
        let progress = reader.push(piece)?;
        reader.show(&mut hear);
        if progress == Progress::Done {
            break;
        }
    }
    reader.end()?;
    reader.show(&mut hear);
    Ok(HeardAnswer {
        answer: reader.into_answer(),
        text,
        reasoning,
    })
}

/// Whole, byte by byte, and cut in two at every byte.
pub fn assert_the_same_however_cut(
    format: impl Fn() -> Box<dyn AnswerFormat>,
    (name, body, wanted): (&str, &str, ModelAnswer),
) {
    let bytes = body.as_bytes();
    let wanted = Ok(HeardAnswer {
        text: wanted.text.clone(),
        reasoning: wanted.reasoning.clone(),
        answer: wanted,
    });
    assert_eq!(read(format(), [bytes]), wanted, "{name} whole");
    assert_eq!(read(format(), bytes.chunks(1)), wanted, "{name} by bytes");
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(read(format(), [left, right]), wanted, "{name} cut at {cut}");
    }
}
