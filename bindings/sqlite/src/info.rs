//! `bloom_info`: what a file is, as a table of one row.

use std::ffi::c_int;
use std::marker::PhantomData;

use bloomfile::hash::Encoding;
use bloomfile::report::{Inspection, inspect};
use rusqlite::types::Value;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, VTab, VTabConfig, VTabConnection, VTabCursor,
    eponymous_only_module,
};
use rusqlite::{Connection, ffi};

use crate::{Result, failed};

/// The columns; the last is the parameter.
const SCHEMA: &str = "CREATE TABLE x(
    kind TEXT, layout TEXT, health TEXT, capacity INTEGER, keys INTEGER, adds INTEGER,
    target_rate REAL, rate_now REAL, segments INTEGER, file_bytes INTEGER, mark INTEGER,
    encoding TEXT, uuid TEXT, json TEXT, file TEXT HIDDEN)";

/// The number of the parameter among the columns.
const FILE: c_int = 14;

pub(crate) fn register(db: &Connection) -> rusqlite::Result<()> {
    db.create_module("bloom_info", eponymous_only_module::<Info>(), None)
}

#[repr(C)]
struct Info {
    /// SQLite's part, which must be the first.
    base: ffi::sqlite3_vtab,
}

// SAFETY: it begins with SQLite's part.
unsafe impl<'vtab> VTab<'vtab> for Info {
    type Aux = ();
    type Cursor = Row<'vtab>;

    fn connect(
        db: &mut VTabConnection,
        _: Option<&()>,
        _: &[&[u8]],
    ) -> rusqlite::Result<(String, Self)> {
        db.config(VTabConfig::DirectOnly)?;
        Ok((SCHEMA.to_owned(), Info { base: ffi::sqlite3_vtab::default() }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<()> {
        let equal = IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ;
        let mut usable = None;
        for (at, constraint) in info.constraints().enumerate() {
            if constraint.column() == FILE && constraint.operator() == equal {
                if !constraint.is_usable() {
                    // Another order of the tables gives the name before it is needed.
                    let code = ffi::Error::new(ffi::SQLITE_CONSTRAINT);
                    return Err(rusqlite::Error::SqliteFailure(code, None));
                }
                usable = Some(at);
            }
        }
        if let Some(at) = usable {
            let mut usage = info.constraint_usage(at);
            usage.set_argv_index(1);
            usage.set_omit(true);
            info.set_idx_num(1);
        }
        info.set_estimated_cost(10.0);
        info.set_estimated_rows(1);
        Ok(())
    }

    fn open(&'vtab mut self) -> rusqlite::Result<Row<'vtab>> {
        Ok(Row { base: ffi::sqlite3_vtab_cursor::default(), row: None, table: PhantomData })
    }
}

#[repr(C)]
struct Row<'vtab> {
    /// SQLite's part, which must be the first.
    base: ffi::sqlite3_vtab_cursor,
    /// The values of the only row, until it was seen.
    row: Option<Vec<Value>>,
    table: PhantomData<&'vtab Info>,
}

// SAFETY: it begins with SQLite's part.
unsafe impl VTabCursor for Row<'_> {
    fn filter(
        &mut self,
        index: c_int,
        _: Option<&str>,
        arguments: &Filters<'_>,
    ) -> rusqlite::Result<()> {
        self.row = None;
        if index == 0 {
            return Err(failed(
                "bloom_info takes the name of a file: bloom_info('seen.bloom')".into(),
            ));
        }
        if let Some(file) = arguments.get::<Option<String>>(0)? {
            self.row = Some(row(file).map_err(failed)?);
        }
        Ok(())
    }

    fn next(&mut self) -> rusqlite::Result<()> {
        self.row = None;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.row.is_none()
    }

    fn column(&self, context: &mut Context, column: c_int) -> rusqlite::Result<()> {
        let value = self.row.as_ref().and_then(|row| row.get(column as usize));
        context.set_result(value.unwrap_or(&Value::Null))
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(1)
    }
}

fn row(file: String) -> Result<Vec<Value>> {
    let found: Inspection = inspect(&file)?;
    let number = |number: u64| Value::Integer(number.try_into().unwrap_or(i64::MAX));
    let word = |value: serde_json::Result<serde_json::Value>| -> Result<Value> {
        Ok(value?.as_str().map_or(Value::Null, |word| Value::Text(word.to_owned())))
    };
    let newest = found.segments.last();
    let layout = newest.map(|segment| Value::Text(segment.geometry.layout().to_string()));
    let encoding = found.metadata.get(Encoding::METADATA);
    Ok(vec![
        word(serde_json::to_value(found.kind))?,
        layout.unwrap_or(Value::Null),
        word(serde_json::to_value(found.health))?,
        found.capacity.map_or(Value::Null, number),
        number(found.keys().value.round() as u64),
        number(found.segments.iter().map(|segment| segment.adds).fold(0, u64::saturating_add)),
        found.target_rate.map_or(Value::Null, Value::Real),
        Value::Real(found.rate_now()),
        number(found.segments.len() as u64),
        number(found.file_bytes),
        number(found.mark),
        encoding.map_or(Value::Null, |name| Value::Text(name.clone())),
        Value::Text(found.uuid.clone()),
        Value::Text(serde_json::to_string(&found)?),
        Value::Text(file),
    ])
}
