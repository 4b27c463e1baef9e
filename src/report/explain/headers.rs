//! Superblock and slots, field by field.

use byteorder::{ByteOrder, LittleEndian as Le};

use super::{Explainer, Walk};
use crate::error::Error;
use crate::format::{
    CRC_OFFSET, Field, Form, GROWING, JOURNAL_OFFSET, JOURNAL_STEP, MAX_JOURNAL_BYTES, SEALED,
    SEGMENT_FIELDS, SLOT_FIELDS, SLOT_OFFSETS, SUPERBLOCK_FIELDS, Slot, Superblock, offsets,
    with_ends,
};
use crate::geometry::{CellKind, PAGE_BYTES};
use crate::hash::crc_of;
use crate::random::uuid_text;

/// What the rest of the walk needs from the superblock, sound or not.
pub(super) struct Parameters {
    pub(super) cells: CellKind,
    pub(super) journal_bytes: u64,
    pub(super) growing: bool,
    reserved_in_use: bool,
    /// All of it, if it is sound.
    pub(super) superblock: Option<Superblock>,
}

/// The slots that can be read.
pub(super) struct Slots {
    /// The one that counts.
    pub(super) counting: Option<Slot>,
    /// The older one.
    pub(super) other: Option<Slot>,
}

/// Whether these bytes begin like a slot.
pub(super) fn has_slot_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&offsets::SLOT_MAGIC)
}

impl Explainer<'_> {
    pub(super) fn superblock(&mut self, bytes: &[u8]) -> Walk<Parameters> {
        let decoded = Superblock::decode(bytes);
        self.fields(bytes, 0, "superblock", &SUPERBLOCK_FIELDS, |field| {
            (field.offset == CRC_OFFSET).then(|| verdict(bytes, decoded.as_ref().err()))
        })?;
        let journal_bytes = Le::read_u64(&bytes[offsets::JOURNAL_BYTES..]);
        let room = self.length.saturating_sub(JOURNAL_OFFSET);
        let incompatible = Le::read_u32(&bytes[offsets::INCOMPATIBLE..]);
        Ok(Parameters {
            cells: if Le::read_u32(&bytes[offsets::CELL_BITS..]) == CellKind::Counting.bits() {
                CellKind::Counting
            } else if incompatible & SEALED != 0 {
                CellKind::Sealed
            } else {
                CellKind::Plain
            },
            // A damaged length must not swallow the file.
            journal_bytes: if journal_bytes.is_multiple_of(JOURNAL_STEP) {
                journal_bytes.min(MAX_JOURNAL_BYTES).min(room)
            } else {
                0
            },
            growing: incompatible & GROWING != 0,
            reserved_in_use: decoded.as_ref().is_ok_and(Superblock::reserved_in_use),
            superblock: decoded.ok(),
        })
    }

    pub(super) fn slots(&mut self, bytes: &[Vec<u8>; 2], parameters: &Parameters) -> Walk<Slots> {
        let decoded = [0, 1].map(|place| {
            let slot =
                Slot::decode_with(&bytes[place], parameters.cells, parameters.reserved_in_use)?;
            if slot.place() != place {
                let reason = "these are the other slot's sequence numbers (F-23)";
                return Err(Error::field("the slot", "sequence", slot.sequence, reason));
            }
            Ok(slot)
        });
        let sequence = |place: usize| decoded[place].as_ref().map_or(0, |slot| slot.sequence);
        let counting = usize::from(sequence(1) > sequence(0));
        for place in [0, 1] {
            let role = match &decoded[place] {
                Ok(_) if place == counting => "counts",
                Ok(_) => "older",
                Err(_) => "damaged",
            };
            let name = format!("slot {place} ({role})");
            let error = decoded[place].as_ref().err();
            if bytes[place].iter().all(|&byte| byte == 0) {
                let range = SLOT_OFFSETS[place]..SLOT_OFFSETS[place] + PAGE_BYTES;
                self.tell(range, name, "all", "zeros", "lost: every file has two slots (F-21)")?;
            } else {
                self.slot(&bytes[place], SLOT_OFFSETS[place], &name, error)?;
            }
        }
        // A damaged one says nothing.
        let mut found = decoded.map(Result::ok);
        Ok(Slots { counting: found[counting].take(), other: found[1 - counting].take() })
    }

    fn slot(&mut self, bytes: &[u8], base: u64, name: &str, error: Option<&Error>) -> Walk {
        let count = Le::read_u32(&bytes[offsets::SEGMENT_COUNT..]) as usize;
        let count = count.min(offsets::MAX_SEGMENTS);
        let metadata_length = Le::read_u32(&bytes[offsets::METADATA_LENGTH..]) as usize;
        let metadata_length = metadata_length.min(offsets::METADATA_BYTES);
        for (field, end) in with_ends(&SLOT_FIELDS, bytes.len()) {
            match field.offset {
                offsets::SEGMENTS => {
                    for segment in 0..count {
                        let at = offsets::SEGMENTS + segment * offsets::SEGMENT_BYTES;
                        let record = &bytes[at..at + offsets::SEGMENT_BYTES];
                        let name = format!("{name}, segment {segment}");
                        self.fields(record, base + at as u64, &name, &SEGMENT_FIELDS, |_| None)?;
                    }
                    let used = offsets::SEGMENTS + count * offsets::SEGMENT_BYTES;
                    self.rest(bytes, base, name, field, used, end)?;
                }
                offsets::METADATA => {
                    self.pairs(bytes, base, name, metadata_length)?;
                    self.rest(bytes, base, name, field, field.offset + metadata_length, end)?;
                }
                _ => {
                    let crc = (field.offset == CRC_OFFSET).then(|| verdict(bytes, error));
                    self.field(bytes, base, name, field, end, crc)?;
                }
            }
        }
        Ok(())
    }

    /// The pairs of the metadata, one by one as far as they can be read.
    fn pairs(&mut self, bytes: &[u8], base: u64, name: &str, length: usize) -> Walk {
        let end = offsets::METADATA + length;
        let mut at = offsets::METADATA;
        let text = |at: usize| -> Option<(String, usize)> {
            let start = at + 2;
            let length = Le::read_u16(bytes.get(at..start)?) as usize;
            let text = bytes[..end].get(start..start + length)?;
            Some((String::from_utf8_lossy(text).into_owned(), start + length))
        };
        while at < end {
            let pair = text(at).and_then(|(key, middle)| {
                text(middle).map(|(value, next)| (format!("{key} = {value}"), next))
            });
            let Some((pair, next)) = pair else {
                let range = base + at as u64..base + end as u64;
                let note = "wrong: no u16 length, key, u16 length, value (F-27)";
                return self.tell(range, name, "metadata", "unreadable", note);
            };
            let note = "a pair: u16 length of the key, the key, u16 length of the value, the value \
                        (F-27)";
            self.tell(base + at as u64..base + next as u64, name, "metadata", pair, note)?;
            at = next;
        }
        Ok(())
    }

    /// What a field with structures of its own does not use.
    fn rest(
        &mut self,
        bytes: &[u8],
        base: u64,
        name: &str,
        field: &Field,
        start: usize,
        end: usize,
    ) -> Walk {
        let range = base + start as u64..base + end as u64;
        self.tell(range, name, field.name, zeros(&bytes[start..end]), field.meaning)
    }

    /// All fields of a structure; `remark` may add to the meaning of one.
    fn fields(
        &mut self,
        bytes: &[u8],
        base: u64,
        name: &str,
        fields: &'static [Field],
        remark: impl Fn(&Field) -> Option<String>,
    ) -> Walk {
        for (field, end) in with_ends(fields, bytes.len()) {
            self.field(bytes, base, name, field, end, remark(field))?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        bytes: &[u8],
        base: u64,
        name: &str,
        field: &Field,
        end: usize,
        remark: Option<String>,
    ) -> Walk {
        let range = base + field.offset as u64..base + end as u64;
        let value = show(field.form, &bytes[field.offset..end]);
        let note = match remark {
            Some(remark) => format!("{}; {remark}", field.meaning),
            None => field.meaning.to_owned(),
        };
        self.tell(range, name, field.name, value, note)
    }
}

/// What the CRC of a header says, and the first rule it breaks.
fn verdict(bytes: &[u8], error: Option<&Error>) -> String {
    let found = crc_of(&bytes[..CRC_OFFSET]);
    match (found == Le::read_u32(&bytes[CRC_OFFSET..]), error) {
        (false, _) => format!("wrong: the bytes give {found:#010x}"),
        (true, None) => "right".into(),
        (true, Some(error)) => format!("right, but the structure is not: {error}"),
    }
}

fn zeros(bytes: &[u8]) -> String {
    match bytes.iter().position(|&byte| byte != 0) {
        None => "zeros".into(),
        Some(at) => format!("not zeros, from byte {at} on"),
    }
}

/// The bytes of a field, readably.
pub(super) fn show(form: Form, bytes: &[u8]) -> String {
    let number = || Le::read_uint(bytes, bytes.len());
    match form {
        Form::Number => number().to_string(),
        Form::Hex => format!("{:#0width$x}", number(), width = 2 + 2 * bytes.len()),
        Form::Float => Le::read_f64(bytes).to_string(),
        Form::Uuid => bytes.try_into().map_or_else(|_| zeros(bytes), uuid_text),
        Form::Zeros | Form::Nested => zeros(bytes),
        Form::Bytes => {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            bytes.join(" ")
        }
    }
}
