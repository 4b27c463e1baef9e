//! The loop over many keys: it is compiled for speed, and what is inlined into it as well. All else of
//! the binding is compiled to be small.

use bloomfile::ranges::{Answer, Loaded};

/// Keys one behind the other, with a byte between them.
pub fn iterate<'a>(text: &'a [u8], ends: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut start = 0;
    ends.iter().map(move |&end| {
        let key = text.get(start..end).unwrap_or_default();
        start = end + 1;
        key
    })
}

/// What a file says of each key; the first answer that is neither "no" nor "maybe".
///
/// All keys are hashed before the first is looked up: then many look-ups wait for memory at once.
pub fn ask(
    loaded: &Loaded<'_>,
    text: &[u8],
    ends: &[usize],
    hashes: &mut Vec<u64>,
    answers: &mut Vec<u8>,
) -> Option<Answer> {
    let mut first = None;
    hashes.clear();
    hashes.extend(iterate(text, ends).map(|key| loaded.hash(key)));
    answers.clear();
    loaded.ask_hashes(hashes, |answer| answers.push(number(answer, &mut first)));
    first
}

/// What a file says of one key, as a number; see [`number`].
pub fn ask_one(loaded: &Loaded<'_>, key: &[u8]) -> u32 {
    u32::from(number(loaded.ask(key), &mut None))
}

/// The number that stands for an answer in JavaScript.
#[inline]
pub fn number(answer: Answer, first: &mut Option<Answer>) -> u8 {
    match answer {
        Answer::Absent => 0,
        Answer::Maybe => 1,
        Answer::Damaged { .. } => {
            first.get_or_insert(answer);
            2
        }
    }
}
