//! Makes the JavaScript side of a wasm file: what the program `wasm-bindgen` does, in the version that
//! the binding is compiled with.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(wasm), Some(folder), Some(name)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: bindgen FILE.wasm FOLDER NAME".into());
    };
    wasm_bindgen_cli_support::Bindgen::new()
        .input_path(wasm)
        .out_name(&name)
        .web(true)?
        .typescript(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(folder)?;
    Ok(())
}
