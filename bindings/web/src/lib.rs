//! What JavaScript calls: conversions, and nothing else. The package around it is in `js/`.

#[cfg(feature = "page")]
mod page;

use bloomfile::Key;
use bloomfile::hash::{Conversion, Form};
use bloomfile::ops::Comparison;
#[cfg(feature = "page")]
use bloomfile::ranges::Measuring;
use bloomfile::ranges::{
    Answer, Asking, Comparing, Explaining, Listing, Loading, Opening, RangeFile, Step, Task,
    Verifying,
};
#[cfg(feature = "page")]
use bloomfile::report::BlockLoads;
use bloomfile::report::{Explained, Inspection, PageInspection, Verification};
use serde::Serialize;
use thrown::{Thrower, Thrown, document, thrown};
use wasm_bindgen::prelude::*;

/// The secret of a keyed file; no bytes where there is none.
fn secret(bytes: &[u8]) -> Thrower<Option<Key>> {
    match bytes.len() {
        0 => Ok(None),
        _ => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => Ok(Some(Key::from_bytes(bytes))),
            Err(_) => {
                let message = format!("a secret key is 16 bytes, not {}", bytes.len());
                Err(document(&Thrown { code: "wrong-key", message, segment: None, page: None }))
            }
        },
    }
}

/// An inspection with what follows from it.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    inspection: &'a Inspection,
    rate_now: f64,
    rate_at_capacity: Option<f64>,
    keys: f64,
    keys_low: f64,
    keys_high: Option<f64>,
}

fn report_of(inspection: &Inspection) -> JsValue {
    let keys = inspection.keys();
    document(&Report {
        inspection,
        rate_now: inspection.rate_now(),
        rate_at_capacity: inspection.rate_at_capacity(),
        keys: keys.value,
        keys_low: keys.low,
        keys_high: Some(keys.high).filter(|high| high.is_finite()),
    })
}

/// Keys that JavaScript wrote, one behind the other, and what became of each.
#[wasm_bindgen]
#[derive(Default)]
pub struct Keys {
    text: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    hashes: Vec<u64>,
    answers: Vec<u8>,
    refused: Refused,
}

/// Texts that mean no key of the file that is asked.
#[derive(Default)]
struct Refused {
    /// Their places among the keys.
    places: Vec<usize>,
    /// What is thrown of the first of them.
    first: Option<Thrown>,
}

/// The answer of a text that means no key.
const REFUSED: u8 = 3;

#[wasm_bindgen]
impl Keys {
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for bytes and tells where it is.
    pub fn reserve(&mut self, bytes: usize) -> *mut u8 {
        if self.text.len() < bytes {
            self.text.resize(bytes, 0);
        }
        self.text.as_mut_ptr()
    }

    /// Takes keys that a zero byte stands between; false if there are fewer.
    pub fn split(&mut self, bytes: usize, count: usize) -> bool {
        self.clear();
        let text = self.text.get(..bytes).unwrap_or_default();
        for (at, byte) in text.iter().enumerate() {
            if *byte == 0 {
                self.ends.push(at);
            }
        }
        self.ends.push(bytes);
        self.ends.len() == count
    }

    /// Takes one key after another: where each ends, with a byte between them that counts for none.
    pub fn cut(&mut self, ends: &[u32]) {
        self.clear();
        self.ends.extend(ends.iter().map(|&end| end as usize));
    }

    /// Where the answers are: a byte each, 0 absent, 1 maybe, 2 damaged, 3 for a text that means no key.
    pub fn answers(&self) -> *const u8 {
        self.answers.as_ptr()
    }
}

/// What keeps a key from being answered.
fn why(answer: Option<Answer>) -> JsValue {
    match answer.and_then(|answer| answer.into_result().err()) {
        Some(error) => thrown(error),
        None => JsValue::NULL,
    }
}

impl Keys {
    fn clear(&mut self) {
        self.ends.clear();
        self.refused = Refused::default();
    }

    /// Makes keys of those that are texts.
    fn read(&mut self, form: Form, texts: &[u8]) {
        let (mut keys, mut ends) = (Vec::new(), Vec::with_capacity(self.ends.len()));
        let mut buffer = Vec::new();
        for (at, given) in look_ups::iterate(&self.text, &self.ends).enumerate() {
            let key = match texts.get(at) {
                Some(0) => Some(given),
                _ => form.key(given, &mut buffer),
            };
            if key.is_none() {
                self.refused.places.push(at);
                self.refused.first.get_or_insert_with(|| refusal(given, form));
            }
            keys.extend_from_slice(key.unwrap_or_default());
            ends.push(keys.len());
            keys.push(0);
        }
        (self.text, self.ends) = (keys, ends);
    }

    /// Takes what became of each key; what keeps the first of those from being answered that are not.
    fn answer(&mut self, answers: &[Answer], refused: &Refused) -> JsValue {
        let mut first = None;
        self.answers.clear();
        self.answers.extend(answers.iter().map(|&answer| look_ups::number(answer, &mut first)));
        refused.mark(&mut self.answers, first)
    }
}

impl Refused {
    /// Marks the answers of what was no key; what keeps the first key from being answered that is not.
    fn mark(&self, answers: &mut [u8], first: Option<Answer>) -> JsValue {
        for &place in &self.places {
            if let Some(answer) = answers.get_mut(place) {
                *answer = REFUSED;
            }
        }
        self.first.as_ref().map_or_else(|| why(first), document)
    }
}

/// What is thrown of a text that means no key of a file.
fn refusal(text: &[u8], form: Form) -> Thrown {
    let what = match form.conversion {
        Conversion::Number(encoding) => format!("whole numbers ({})", encoding.name()),
        _ => "written in hex digits, two for each byte".to_owned(),
    };
    let text = String::from_utf8_lossy(text);
    let message = format!("“{text}” is no key of this file, whose keys are {what}");
    Thrown { code: "not-a-key", message, segment: None, page: None }
}

/// What the bytes of a file are, damaged or not.
#[derive(Serialize)]
struct Range<'a> {
    start: u64,
    end: u64,
    structure: &'a str,
    field: &'a str,
    value: &'a str,
    note: &'a str,
}

fn explanation(all: &[Explained]) -> JsValue {
    let ranges = all.iter().map(|it| Range {
        start: it.range.start,
        end: it.range.end,
        structure: &it.structure,
        field: &it.field,
        value: &it.value,
        note: &it.note,
    });
    document(&ranges.collect::<Vec<_>>())
}

/// What a task is, and what came out of it.
enum Work {
    Opening(Opening),
    /// With what was no key: other keys may be written before these are answered.
    Asking(Asking, Refused),
    Verifying(Verifying),
    Explaining(Explaining),
    Listing(Listing),
    Loading(Loading),
    Comparing(Box<Comparing>),
    #[cfg(feature = "page")]
    Measuring(Measuring),
}

enum Outcome {
    Opened(RangeFile),
    Answers(Vec<Answer>),
    Verified(Verification),
    Explained(Vec<Explained>),
    Pages(Vec<PageInspection>),
    Loaded,
    Compared(Comparison),
    #[cfg(feature = "page")]
    Measured(Vec<BlockLoads>),
}

/// Work on a file of which ranges are read; see `bloomfile::ranges`.
#[wasm_bindgen]
pub struct Job {
    work: Work,
    outcome: Option<Outcome>,
}

#[wasm_bindgen]
impl Job {
    /// Opens a file of this length.
    pub fn open(length: f64, key: &[u8]) -> Thrower<Job> {
        let mut opening = Opening::new(length as u64);
        if let Some(key) = secret(key)? {
            opening = opening.key(&key);
        }
        Ok(Job { work: Work::Opening(opening), outcome: None })
    }

    /// Tells what the bytes of a file of this length are, damaged or not, without reading its data.
    pub fn explain(length: f64) -> Job {
        Job { work: Work::Explaining(Explaining::new(length as u64)), outcome: None }
    }

    /// The same with what a check gave, which this job was.
    pub fn explain_verified(&self, length: f64) -> Job {
        let mut explaining = Explaining::new(length as u64);
        if let Some(Outcome::Verified(verification)) = &self.outcome {
            explaining = explaining.verified(verification.clone());
        }
        Job { work: Work::Explaining(explaining), outcome: None }
    }

    /// Goes on. The ranges that are needed next, as starts and ends; none when it is done.
    pub fn step(&mut self) -> Thrower<Vec<f64>> {
        fn outcome<T>(
            step: bloomfile::Result<Step<T>>,
            make: impl FnOnce(T) -> Outcome,
        ) -> bloomfile::Result<Step<Outcome>> {
            Ok(match step? {
                Step::Done(done) => Step::Done(make(done)),
                Step::Need(ranges) => Step::Need(ranges),
            })
        }
        let step = match &mut self.work {
            Work::Opening(task) => outcome(task.step(), Outcome::Opened),
            Work::Asking(task, _) => outcome(task.step(), Outcome::Answers),
            Work::Verifying(task) => outcome(task.step(), Outcome::Verified),
            Work::Explaining(task) => outcome(task.step(), Outcome::Explained),
            Work::Listing(task) => outcome(task.step(), Outcome::Pages),
            Work::Loading(task) => outcome(task.step(), |()| Outcome::Loaded),
            Work::Comparing(task) => outcome(task.step(), Outcome::Compared),
            #[cfg(feature = "page")]
            Work::Measuring(task) => outcome(task.step(), Outcome::Measured),
        };
        match step.map_err(thrown)? {
            Step::Need(ranges) => {
                Ok(ranges.iter().flat_map(|it| [it.start as f64, it.end as f64]).collect())
            }
            Step::Done(outcome) => {
                self.outcome = Some(outcome);
                Ok(Vec::new())
            }
        }
    }

    pub fn give(&mut self, start: f64, bytes: Vec<u8>) -> Thrower<()> {
        let start = start as u64;
        match &mut self.work {
            Work::Opening(task) => task.give(start, bytes),
            Work::Asking(task, _) => task.give(start, bytes),
            Work::Verifying(task) => task.give(start, bytes),
            Work::Explaining(task) => task.give(start, bytes),
            Work::Listing(task) => task.give(start, bytes),
            Work::Loading(task) => task.give(start, bytes),
            Work::Comparing(task) => task.give(start, bytes),
            #[cfg(feature = "page")]
            Work::Measuring(task) => task.give(start, bytes),
        }
        .map_err(thrown)
    }

    /// From 0 to 1, how far it got, where that is known.
    pub fn progress(&self) -> f64 {
        let (done, all) = match &self.work {
            Work::Verifying(task) => (task.checked(), task.pages()),
            Work::Comparing(task) => (task.checked(), task.pages()),
            #[cfg(feature = "page")]
            Work::Measuring(task) => (task.checked(), task.pages()),
            _ => return 0.0,
        };
        done as f64 / all.max(1) as f64
    }

    /// Which of two files that are compared the ranges are of.
    pub fn of(&self) -> usize {
        match &self.work {
            Work::Comparing(task) => task.of(),
            _ => 0,
        }
    }

    /// The file that was opened.
    pub fn file(&self) -> Option<Ranges> {
        match &self.outcome {
            Some(Outcome::Opened(file)) => Some(Ranges::new(file.clone())),
            _ => None,
        }
    }

    /// What came out of it: what was verified, explained or listed.
    pub fn result(&self) -> JsValue {
        match &self.outcome {
            Some(Outcome::Verified(verification)) => document(verification),
            Some(Outcome::Explained(all)) => explanation(all),
            Some(Outcome::Pages(pages)) => document(pages),
            Some(Outcome::Compared(comparison)) => document(comparison),
            _ => JsValue::NULL,
        }
    }

    /// Of pages that were listed, the cells that are set and those that there are, one after the other:
    /// less to make than objects, where pages are many.
    pub fn fills(&self) -> Vec<f64> {
        let Some(Outcome::Pages(pages)) = &self.outcome else { return Vec::new() };
        pages.iter().flat_map(|page| [f64::from(page.ones), page.cells as f64]).collect()
    }

    /// Takes the answers of keys that were asked; what keeps the first of them from being answered.
    pub fn answer(&self, keys: &mut Keys) -> JsValue {
        let (Work::Asking(_, refused), Some(Outcome::Answers(answers))) =
            (&self.work, &self.outcome)
        else {
            return JsValue::NULL;
        };
        keys.answer(answers, refused)
    }
}

/// A file of which ranges are read.
#[wasm_bindgen]
pub struct Ranges {
    file: RangeFile,
    /// The form of its keys.
    form: bloomfile::Result<Form>,
}

impl Ranges {
    fn new(file: RangeFile) -> Self {
        let form = Form::recorded(file.metadata()).map(Option::unwrap_or_default);
        Ranges { file, form }
    }
}

#[wasm_bindgen]
impl Ranges {
    /// Whether texts are keys of this file as they stand. (Keys have no line ends.)
    pub fn is_plain(&self) -> bool {
        self.form.as_ref().is_ok_and(|&form| Form { crlf: false, ..form }.is_plain())
    }

    /// Reads texts in the form of this file's keys. A byte for each key says whether it is one: keys
    /// that came as bytes are taken as they are.
    pub fn read(&self, keys: &mut Keys, texts: &[u8]) -> Thrower<()> {
        match &self.form {
            Ok(form) => keys.read(*form, texts),
            Err(_) if texts.iter().all(|&text| text == 0) => {}
            Err(error) => {
                let message = format!("{error}, or give keys as bytes");
                return Err(document(&Thrown {
                    code: "unsupported",
                    message,
                    segment: None,
                    page: None,
                }));
            }
        }
        Ok(())
    }

    pub fn inspect(&self) -> JsValue {
        report_of(&self.file.inspect())
    }

    pub fn ask(&self, keys: &mut Keys) -> Thrower<Job> {
        let task = self.file.ask(look_ups::iterate(&keys.text, &keys.ends)).map_err(thrown)?;
        let refused = std::mem::take(&mut keys.refused);
        Ok(Job { work: Work::Asking(task, refused), outcome: None })
    }

    /// Brings all pages into memory.
    pub fn load(&self) -> Job {
        Job { work: Work::Loading(self.file.load()), outcome: None }
    }

    /// Answers keys of a file that was loaded; what keeps the first of those from being answered that
    /// are not.
    pub fn ask_loaded(&self, keys: &mut Keys) -> Thrower<JsValue> {
        let Some(loaded) = self.file.loaded().map_err(thrown)? else { return Ok(JsValue::NULL) };
        let Keys { text, ends, hashes, answers, refused } = keys;
        let first = look_ups::ask(&loaded, text, ends, hashes, answers);
        Ok(refused.mark(answers, first))
    }

    /// Answers the one key that the first bytes are of: 0 absent, 1 maybe. Anything else is not told
    /// here: `ask_loaded` says why.
    pub fn ask_one(&self, keys: &Keys, bytes: usize) -> u32 {
        match (self.file.loaded(), keys.text.get(..bytes)) {
            (Ok(Some(loaded)), Some(key)) => look_ups::ask_one(&loaded, key),
            _ => 2,
        }
    }

    pub fn verify(&self) -> Job {
        Job { work: Work::Verifying(self.file.verify()), outcome: None }
    }

    /// Tells how this file and another one relate.
    pub fn compare(&self, other: &Ranges) -> Thrower<Job> {
        let task = Comparing::new(&self.file, &other.file).map_err(thrown)?;
        Ok(Job { work: Work::Comparing(Box::new(task)), outcome: None })
    }

    pub fn pages(&self, segment: usize, first: f64, end: f64) -> Thrower<Job> {
        let task = self.file.list_pages(segment, first as u64..end as u64).map_err(thrown)?;
        Ok(Job { work: Work::Listing(task), outcome: None })
    }
}
