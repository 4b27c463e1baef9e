//! `inspect --app`: the page that opens files in a browser. It is made by `bindings/web/build`.

use std::path::Path;

use crate::commands::InspectArgs;
use crate::failure::Result;
use crate::pending::Target;
use crate::{output, text, units};

const PAGE: &str = include_str!("app.html");

pub(super) fn run(args: &InspectArgs, target: &Path) -> Result<()> {
    if target.as_os_str() == "-" {
        return output::print(PAGE);
    }
    Target::new(target, None, args.force)?.write(PAGE.as_bytes())?;
    let (target, size) = (text::path(target), units::size(PAGE.len() as u64));
    output::line(format_args!("{target}: written, {size}; open it in a browser"))
}
