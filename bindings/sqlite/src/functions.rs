//! Functions that give a value for each row.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::functions::Context;
use rusqlite::types::ValueRef;

use crate::files::{Asked, Files, Written};
use crate::{Result, failed, flags};

pub(crate) fn register(db: &Connection, files: &Arc<Files>) -> rusqlite::Result<()> {
    let shared = Arc::clone(files);
    db.create_scalar_function(c"bloom_contains", 2, flags(), move |context| {
        contains(context, &shared).map_err(failed)
    })?;
    let shared = Arc::clone(files);
    db.create_scalar_function(c"bloom_add", 2, flags(), move |context| {
        add(context, &shared).map_err(failed)
    })?;
    let shared = Arc::clone(files);
    db.create_scalar_function(c"bloom_sync", 1, flags(), move |context| {
        path(context.get_raw(0)).and_then(|path| on(path, |path| shared.sync(path))).map_err(failed)
    })?;
    let shared = Arc::clone(files);
    db.create_scalar_function(c"bloom_close", 1, flags(), move |context| {
        path(context.get_raw(0))
            .and_then(|path| on(path, |path| shared.close(path)))
            .map_err(failed)
    })
}

/// The file that an argument names; none for NULL.
pub(crate) fn path(value: ValueRef<'_>) -> Result<Option<&Path>> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) => Ok(Some(Path::new(std::str::from_utf8(text)?))),
        _ => Err("the name of a file is a text".into()),
    }
}

fn on(path: Option<&Path>, work: impl FnOnce(&Path) -> Result<bool>) -> Result<Option<bool>> {
    path.map(work).transpose()
}

/// What SQLite keeps for a statement while it runs.
struct OfStatement<T>(Arc<T>);

/// The file of a statement: where its name is constant, it is looked up once for each run of the
/// statement, and all rows of the run are answered by the same file.
fn of_statement<T: Send + Sync + 'static>(
    context: &Context<'_>,
    open: impl FnOnce(&Path) -> Result<Arc<T>>,
) -> Result<Option<Arc<OfStatement<T>>>> {
    if let Some(file) = context.get_aux::<OfStatement<T>>(0)? {
        return Ok(Some(file));
    }
    let Some(path) = path(context.get_raw(0))? else { return Ok(None) };
    Ok(Some(context.set_aux(0, OfStatement(open(path)?))?))
}

fn contains(context: &Context<'_>, files: &Files) -> Result<Option<bool>> {
    let file = of_statement::<Asked>(context, |path| files.asked(path))?;
    let Some(OfStatement(file)) = file.as_deref() else { return Ok(None) };
    let Some(key) = file.form.key(context.get_raw(1))? else { return Ok(None) };
    Ok(Some(file.contains(key.as_ref())?))
}

fn add(context: &Context<'_>, files: &Files) -> Result<Option<bool>> {
    let file = of_statement::<Written>(context, |path| files.written(path))?;
    let Some(OfStatement(file)) = file.as_deref() else { return Ok(None) };
    let Some(key) = file.form.key(context.get_raw(1))? else { return Ok(None) };
    Ok(Some(file.filter.add(key.as_ref())?))
}
