//! Files that the command writes beside filters: whole or not at all, and over nothing else.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::sandbox::Sandbox;

/// A page over the filter that it describes would be the end of the filter.
#[test]
fn a_page_never_replaces_the_filter_it_shows() {
    let sandbox = Sandbox::with_filter();
    let before = sandbox.read("a.bloom");
    symlink("a.bloom", sandbox.path("link")).unwrap();
    std::fs::hard_link(sandbox.path("a.bloom"), sandbox.path("hard")).unwrap();
    for target in ["a.bloom", "./a.bloom", "link", "hard"] {
        for force in ["", " --force"] {
            let error = format!(
                "bloomfile: {target}: is the filter itself; choose another name for the page\n"
            );
            sandbox.run(&format!("inspect a.bloom --html {target}{force}")).is(2, "", &error);
        }
    }
    assert_eq!(sandbox.read("a.bloom"), before);
    assert_eq!(sandbox.names(), ["a.bloom", "hard", "link"]);
}

#[test]
fn a_page_replaces_a_file_only_when_asked_to() {
    let sandbox = Sandbox::with_filter();
    sandbox.write("mine", "mine");
    sandbox.run("inspect a.bloom --html mine").is(
        2,
        "",
        "bloomfile: mine: already exists; choose another name, or replace it with --force\n",
    );
    assert_eq!(sandbox.read("mine"), b"mine");
    std::fs::set_permissions(sandbox.path("mine"), PermissionsExt::from_mode(0o640)).unwrap();
    symlink("mine", sandbox.path("link")).unwrap();
    let inode = std::fs::metadata(sandbox.path("mine")).unwrap().ino();
    let ran = sandbox.run("inspect a.bloom --html link --force");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(sandbox.read("mine").starts_with(b"<!DOCTYPE html>"));
    let metadata = std::fs::metadata(sandbox.path("mine")).unwrap();
    assert_ne!(metadata.ino(), inode, "written in place: a reader could see half of it");
    assert_eq!(metadata.mode() & 0o777, 0o640);
    assert!(sandbox.path("link").is_symlink());
    assert_eq!(sandbox.names(), ["a.bloom", "link", "mine"]);
}

#[test]
fn a_page_replaces_only_files() {
    let sandbox = Sandbox::with_filter();
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    symlink("nowhere", sandbox.path("dangling")).unwrap();
    for target in ["folder", "/dev/null", "/dev/full"] {
        let error = format!("bloomfile: {target}: is not a regular file; choose another name\n");
        sandbox.run(&format!("inspect a.bloom --html {target} --force")).is(2, "", &error);
    }
    sandbox.run("inspect a.bloom --html dangling").is(
        2,
        "",
        "bloomfile: dangling: is a symbolic link to a file that is not there; choose another name\n",
    );
    sandbox.run("inspect a.bloom --html no/page").is(
        2,
        "",
        "bloomfile: no/page: cannot be written: No such file or directory (os error 2)\n",
    );
    let page = sandbox.run("inspect a.bloom --html -");
    assert!(page.code == Some(0) && page.out.starts_with("<!DOCTYPE html>"), "{page:?}");
}

/// A disk without space leaves the old page, or none.
#[test]
fn a_page_that_does_not_fit_leaves_the_old_one() {
    let sandbox = Sandbox::with_filter();
    sandbox.write("page", "mine");
    for (target, names) in [("page", ["a.bloom", "page"]), ("other", ["a.bloom", "page"])] {
        let script = format!("ulimit -f 1; exec \"$0\" inspect a.bloom --html {target} --force");
        let ran = std::process::Command::new("sh")
            .args(["-c", &script, crate::sandbox::BLOOMFILE])
            .current_dir(sandbox.folder())
            .output()
            .unwrap();
        let ran = crate::sandbox::Ran::from(ran);
        let why = "cannot be written: File too large (os error 27)";
        ran.is(2, "", &format!("bloomfile: {target}: {why}\n"));
        assert_eq!(sandbox.read("page"), b"mine");
        assert_eq!(sandbox.names(), names);
    }
}

#[test]
fn manual_pages_replace_others_only_when_asked_to() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("man1")).unwrap();
    sandbox.write("man1/bloomfile-add.1", "mine");
    sandbox.run("man --out man1").is(
        2,
        "",
        "bloomfile: man1/bloomfile-add.1: already exists; choose another name, or replace it with \
         --force\n",
    );
    assert_eq!(std::fs::read_dir(sandbox.path("man1")).unwrap().count(), 1);
    assert_eq!(sandbox.run("man --out man1 --force").code, Some(0));
    assert!(sandbox.read("man1/bloomfile-add.1").starts_with(b".ie"));
}
