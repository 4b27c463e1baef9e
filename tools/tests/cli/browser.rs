//! The HTML page in a real browser: a headless Chromium, without a network.
//!
//! Where there is none (`tests/install-tools` brings it) the test says so and is skipped. With `BLOOMFILE_SCREENSHOTS=FOLDER` the pictures are kept there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::sandbox::{Sandbox, numbers};

/// The browser's name, once it is there.
fn chromium() -> Option<&'static str> {
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("skipped: there is no Chromium; tests/install-tools brings it");
    }
    found
}

fn browse(browser: &str, page: &Path, arguments: &[&str]) -> Output {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--hide-scrollbars", "--enable-logging=stderr", "--v=0"])
        // Nothing can be fetched: every name and every connection fails.
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let errors = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = errors.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
    output
}

/// Width and height of a PNG.
fn picture_size(path: &Path) -> (u32, u32) {
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000, "{}", bytes.len());
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn page(sandbox: &Sandbox, name: &str) -> PathBuf {
    let html = format!("{name}.html");
    let ran = sandbox.run(&format!("inspect {name}.bloom --html {html}"));
    assert!(ran.out.ends_with("; open it in a browser\n"), "{ran:?}");
    sandbox.path(&html)
}

/// A filter with texts that would like to be markup, and one with a damaged page.
fn pages(sandbox: &Sandbox) -> [PathBuf; 2] {
    sandbox.write("keys.txt", numbers(150_000));
    let mut build = sandbox.command("build -q words.bloom keys.txt -n 200k");
    build.args(["--meta", "note=<script>console.error('no')</script>\"'&"]);
    assert!(build.status().unwrap().success());
    sandbox.run("build -q rows.bloom keys.txt -n 150k -p 5% --layout rows").is(0, "", "");
    let mut bytes = sandbox.read("rows.bloom");
    let last = bytes.len() - 4096;
    bytes[last..].fill(0);
    sandbox.write("rows.bloom", bytes);
    [page(sandbox, "words"), page(sandbox, "rows")]
}

#[test]
fn the_page_is_whole_and_escapes_what_it_is_told() {
    let sandbox = Sandbox::new();
    let [words, rows] = pages(&sandbox).map(|page| std::fs::read_to_string(page).unwrap());
    for page in [&words, &rows] {
        for forbidden in ["<script", "http://", "https://", "url(", "@import", "src="] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.contains("prefers-color-scheme:dark") && page.contains("name=\"viewport\""));
        let count = |what: &str| page.matches(what).count();
        assert_eq!(count("<svg"), count("role=\"img\" aria-label=\""));
        assert_eq!(count("<section"), count("</section>"));
        assert!(count("you are here") == 1 && count("Poisson law") >= 1);
    }
    assert!(
        words.contains("&lt;script&gt;console.error(&#39;no&#39;)&lt;/script&gt;&quot;&#39;&amp;")
    );
    assert!(words.contains("all 62 are as written"), "checksums");
    assert!(rows.contains("class=\"broken\"") && rows.contains("are not as written"));
    assert_eq!(rows.matches(">row ").count(), 2 * 4, "a bar and a figure for each row");
}

#[test]
fn a_browser_draws_it_offline_without_a_complaint() {
    let Some(browser) = chromium() else { return };
    let sandbox = Sandbox::new();
    for page in pages(&sandbox) {
        let dom = browse(browser, &page, &["--dump-dom"]);
        let dom = String::from_utf8(dom.stdout).unwrap();
        for drawn in ["class=\"h", "class=\"curve\" d=\"M", "class=\"here\"", "class=\"law\" d=\"M"]
        {
            assert!(dom.contains(drawn), "{drawn}");
        }
        for (name, width, height) in [("desktop", 1280, 1250), ("phone", 390, 2600)] {
            let stem = page.file_stem().unwrap().to_str().unwrap();
            let picture = match std::env::var_os("BLOOMFILE_SCREENSHOTS") {
                Some(folder) => Path::new(&folder).join(format!("{stem}-{name}.png")),
                None => sandbox.path(&format!("{stem}-{name}.png")),
            };
            let size = format!("--window-size={width},{height}");
            let target = format!("--screenshot={}", picture.display());
            browse(browser, &page, &[&size, &target]);
            assert_eq!(picture_size(&picture), (width, height));
        }
    }
}
