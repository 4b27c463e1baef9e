//! What the modules throw, and how documents are handed to JavaScript.

use bloomfile::Error;
use serde::Serialize;
use wasm_bindgen::JsValue;

pub type Thrower<T> = Result<T, JsValue>;

/// What is thrown: the package makes an error of it.
#[derive(Serialize)]
pub struct Thrown {
    pub code: &'static str,
    pub message: String,
    pub segment: Option<u32>,
    pub page: Option<u64>,
}

pub fn thrown(error: Error) -> JsValue {
    let (segment, page) = match error.cause() {
        Error::Damaged { segment, page, .. } => (Some(*segment), Some(*page)),
        _ => (None, None),
    };
    let code = match error.cause() {
        Error::Changed => "changed",
        Error::KeyNeeded { .. } => "key-needed",
        Error::WrongKey { .. } | Error::NotKeyed | Error::KeyFile { .. } => "wrong-key",
        Error::NotABloomfile { .. } => "not-a-bloomfile",
        Error::Version { .. } | Error::Features { .. } => "unsupported",
        Error::DamagedDelta { .. } | Error::NotADelta { .. } => "damaged-delta",
        Error::OtherVersion { .. } => "other-version",
        _ if error.is_damage() => "damaged",
        Error::Io { .. } => "read",
        _ => "invalid",
    };
    document(&Thrown { code, message: error.to_string(), segment, page })
}

/// A document as JavaScript has it. Its large numbers are BigInts: the package makes numbers of those
/// that are small enough.
pub fn document(value: &impl Serialize) -> JsValue {
    let serializer = serde_wasm_bindgen::Serializer::new()
        .serialize_missing_as_null(true)
        .serialize_maps_as_objects(true)
        .serialize_large_number_types_as_bigints(true);
    match value.serialize(&serializer) {
        Ok(value) => value,
        Err(error) => error.into(),
    }
}
