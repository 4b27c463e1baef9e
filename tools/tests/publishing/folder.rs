//! Publishing in a folder and pulling from it.

use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::host::Host;

#[test]
fn a_file_its_deltas_and_nothing_to_do() {
    let host = Host::new();
    let made = host.publish();
    assert_eq!((&made["version"], &made["delta"]), (&json!(1), &Value::Null));
    let ran = host.run("pull site pulled.bloom").ends(0);
    assert_eq!(ran.out, "pulled.bloom: version 1 by a snapshot; 1.23 MiB transferred\n");
    host.is_current();
    let ran = host.run("pull site pulled.bloom").ends(1);
    assert!(ran.out.starts_with("pulled.bloom: version 1 is current; "), "{}", ran.out);
    let ran = host.run("publish live.bloom site").ends(1);
    assert_eq!(ran.out, "site: version 1 is current: nothing new\n");

    host.publish_more(3);
    let ran = host.run("pull --json site pulled.bloom").ends(0).json();
    let found = ["way", "from_version", "version", "deltas"].map(|name| ran[name].clone());
    assert_eq!(found, [json!("deltas"), json!(1), json!(4), json!(3)]);
    let bytes = ran["transferred_bytes"].as_u64().unwrap();
    // 3,000 keys of 50 bits, headers and a manifest; a snapshot has 1,290,240.
    assert!(bytes < 30_000, "{bytes}");
    host.is_current();

    // A note alone is a version as well.
    let filter = bloomfile::Filter::open(host.path("live.bloom")).unwrap();
    filter.set_metadata("note", Some("new")).unwrap();
    filter.close().unwrap();
    host.publish();
    let ran = host.run("pull --json site pulled.bloom").ends(0).json();
    assert_eq!((&ran["way"], &ran["deltas"]), (&json!("deltas"), &json!(1)));
    host.is_current();
    let reader = bloomfile::Reader::open(host.path("pulled.bloom")).unwrap();
    assert_eq!(reader.metadata()["note"], "new");
}

/// What falls out of the chain is removed, one version later; a snapshot brings those who are too far
/// behind.
#[test]
fn chains_end_and_files_go() {
    let host = Host::new();
    host.publish();
    host.run("pull -q site pulled.bloom").ends(0);
    std::fs::copy(host.path("pulled.bloom"), host.path("first")).unwrap();
    for version in 2..9u64 {
        host.add(version * 100_000, 500);
        host.run("publish -q live.bloom site --keep 3").ends(0);
        let manifest = host.manifest();
        let deltas = manifest["deltas"].as_array().unwrap().len() as u64;
        assert_eq!(deltas, (version - 1).min(3));
        let files = std::fs::read_dir(host.path("site")).unwrap().count() as u64;
        // Manifest, lock, two snapshots, the deltas of this version and the one that it dropped.
        assert!(files <= 4 + deltas + 1, "{files} files");
        for item in manifest["deltas"].as_array().unwrap() {
            assert!(host.path("site").join(item["name"].as_str().unwrap()).exists());
        }
    }
    let ran = host.run("pull --json site pulled.bloom").ends(0).json();
    assert_eq!((&ran["way"], &ran["from_version"]), (&json!("snapshot"), &Value::Null));
    host.is_current();
    // One that was changed here is told by its contents, and brought back.
    host.add(1_000_000, 500);
    host.run("publish -q live.bloom site --keep 3").ends(0);
    let filter = bloomfile::Filter::open(host.path("pulled.bloom")).unwrap();
    filter.set_metadata("here", Some("alone")).unwrap();
    filter.close().unwrap();
    let ran = host.run("pull --json site pulled.bloom").ends(0).json();
    assert_eq!((&ran["way"], &ran["deltas"]), (&json!("deltas"), &json!(1)));
    host.is_current();
    // One with keys of its own is no version.
    host.run("add -q pulled.bloom another").ends(0);
    let ran = host.run("pull --json site pulled.bloom").ends(0).json();
    assert_eq!(ran["way"], "snapshot");
    host.is_current();
}

/// Only what has exactly the name that a version's file has is removed: the folder may hold other files, and
/// other commands may be writing in it.
#[test]
fn files_of_others_stay() {
    use std::os::unix::ffi::OsStringExt;

    let host = Host::new();
    host.publish();
    let others = [
        "über.html",
        "é",
        "v",
        "v1.bloom",
        "v2.bloom",
        "v1.delta",
        "v1-v2.delta",
        "v1-notes.bloom",
        "v1-0123456789abcdef.bloom.bak",
        "v1-0123456789abcdef.delta",
        ".bloomfileAbCdEf.tmp",
        ".bloomfile-AbCdEfGhIjKl.tmp",
    ];
    let mut paths: Vec<PathBuf> = others.iter().map(|name| host.path("site").join(name)).collect();
    for name in [&b"v\xff.bloom"[..], b"v1\xff.delta", b"\xff"] {
        paths.push(host.path("site").join(std::ffi::OsString::from_vec(name.to_vec())));
    }
    for path in &paths {
        std::fs::copy(host.path("live.bloom"), path).unwrap();
    }
    // Left by a publication that was killed.
    let left = ["v2-0123456789abcdef.bloom", "v1-v2-0123456789abcdef.delta"];
    for name in left {
        std::fs::write(host.path("site").join(name), "").unwrap();
    }
    std::fs::create_dir(host.path("site/.bloomfile-publish")).unwrap();
    std::fs::write(host.path("site/.bloomfile-publish/snapshot"), "half").unwrap();
    host.publish_more(2);
    // What is published may be one of them.
    host.run("add -q site/v2.bloom another").ends(0);
    host.run("publish -q site/v2.bloom site").ends(0);
    host.run("add -q site/v2.bloom more").ends(0);
    host.run("publish -q site/v2.bloom site").ends(0);
    for path in &paths {
        assert!(path.exists(), "{}", path.display());
    }
    for name in left {
        assert!(!host.path("site").join(name).exists(), "{name}");
    }
    let names = std::fs::read_dir(host.path("site")).unwrap().map(|entry| entry.unwrap().path());
    let own: Vec<PathBuf> = names.filter(|path| !paths.contains(path)).collect();
    // Lock, manifest, two snapshots, four deltas.
    assert_eq!(own.len(), 8, "{own:?}");
    host.run("pull -q site pulled.bloom").ends(0);
    host.is_current();
}

/// Readers stop at 4 MiB of a manifest: that of more versions than fit is that of the newest of them.
#[test]
fn a_manifest_has_no_more_than_readers_take() {
    const MOST: usize = 4 << 20;
    let host = Host::new();
    host.publish();
    let first = host.manifest()["versions"][0].clone();
    // Of a version in the past, as many as there is room for, and more.
    let count = 11_000u64;
    lie(&host, |manifest| {
        manifest["version"] = json!(count);
        let (mut versions, mut deltas) = (Vec::new(), Vec::new());
        for version in (1..=count).rev() {
            let mut told = first.clone();
            told["version"] = json!(version);
            if version < count {
                told["head"] = json!(format!("{version:064x}"));
                deltas.push(json!({
                    "from": version,
                    "to": version + 1,
                    "name": format!("v{version}-v{}-0123456789abcdef.delta", version + 1),
                    "bytes": 1,
                    "sha256": "0".repeat(64),
                }));
            }
            versions.push(told);
        }
        manifest["versions"] = json!(versions);
        manifest["deltas"] = json!(deltas);
    });
    host.add(500_000, 10);
    let mut before = 0;
    // The second one finds a manifest that is as long as it may be.
    for more in 1..=2 {
        host.add(500_000 + more * 1_000, 10);
        host.run("publish -q live.bloom site --keep 1000000").ends(0);
        let manifest = host.manifest();
        let bytes = std::fs::metadata(host.path("site/manifest.json")).unwrap().len() as usize;
        assert!(bytes <= MOST && bytes > MOST - 1_000, "{bytes}");
        assert_eq!(manifest["version"], json!(count + more));
        let deltas = manifest["deltas"].as_array().unwrap();
        let versions = manifest["versions"].as_array().unwrap();
        assert_eq!(versions.len(), deltas.len() + 1);
        assert_eq!(deltas.last().unwrap()["from"], versions.last().unwrap()["version"]);
        assert!(deltas.len() as u64 + 1 >= before, "{}", deltas.len());
        before = deltas.len() as u64;
        println!("{before} deltas in {bytes} bytes");
        let _ = std::fs::remove_file(host.path("pulled.bloom"));
        host.run("pull -q site pulled.bloom").ends(0);
        host.is_current();
    }
}

/// Changes a field of the manifest.
fn lie(host: &Host, change: impl FnOnce(&mut Value)) {
    let mut manifest = host.manifest();
    change(&mut manifest);
    std::fs::write(host.path("site/manifest.json"), serde_json::to_vec(&manifest).unwrap())
        .unwrap();
}

/// A manifest that lies, files that are others, a version from the past: an error, and the old file is
/// there as it was.
#[test]
fn what_is_not_right_leaves_the_old_file() {
    let host = Host::new();
    host.publish();
    host.publish_more(1);
    host.run("pull -q site pulled.bloom").ends(0);
    host.publish_more(1);
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    let good = std::fs::read(host.path("site/manifest.json")).unwrap();
    let zeros = "0".repeat(64);
    let refused = |wanted: &str| {
        let ran = host.run("pull site pulled.bloom").ends(2);
        assert!(ran.err.contains(wanted), "{wanted}: {}", ran.err);
        assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old, "{wanted}: changed");
        std::fs::write(host.path("site/manifest.json"), &good).unwrap();
        // What came and was right would be used by the next call.
        for entry in std::fs::read_dir(host.path("")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "part") {
                std::fs::remove_file(path).unwrap();
            }
        }
    };
    // The delta does not lead there, and the snapshot is not that either.
    lie(&host, |manifest| manifest["versions"][0]["digest"] = json!(zeros));
    refused("has another digest than the manifest says");
    lie(&host, |manifest| manifest["deltas"][0]["name"] = json!("../live.bloom"));
    refused("is no name for a file");
    lie(&host, |manifest| manifest["bloomfile_manifest"] = json!(2));
    refused("has form 2");
    lie(&host, |manifest| manifest["version"] = json!(1));
    refused("cannot be right");
    std::fs::write(host.path("site/manifest.json"), "{").unwrap();
    refused("is not a manifest");
    let snapshot = host.snapshot();
    lie(&host, |manifest| {
        manifest["deltas"] = json!([]);
        manifest["versions"][0]["head"] = json!(zeros);
    });
    refused("another head");
    let bytes = std::fs::read(&snapshot).unwrap();
    std::fs::write(&snapshot, &bytes[..bytes.len() - 4096]).unwrap();
    lie(&host, |manifest| manifest["deltas"] = json!([]));
    refused("has ");
    std::fs::remove_file(&snapshot).unwrap();
    lie(&host, |manifest| manifest["deltas"] = json!([]));
    refused("is not there");
    std::fs::write(&snapshot, &bytes).unwrap();
    // A writer has the file.
    let filter = bloomfile::Filter::open(host.path("pulled.bloom")).unwrap();
    refused("is being written by another process");
    drop(filter);
    host.run("pull site pulled.bloom").ends(0);
    host.is_current();

    // Back to an older version only when told to.
    let second = std::fs::read(host.path("pulled.bloom")).unwrap();
    lie(&host, |manifest| {
        manifest["version"] = json!(2);
        manifest["versions"][0]["version"] = json!(2);
        manifest["deltas"] = json!([]);
    });
    let ran = host.run("pull site pulled.bloom").ends(2);
    assert!(ran.err.contains("is version 3, and the source has only version 2"), "{}", ran.err);
    assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == second);
}

/// A delta that cannot be had or used keeps none from the snapshot, and is told. Until that is verified the
/// old file stays.
#[test]
fn deltas_that_are_of_no_use() {
    let host = Host::new();
    host.publish();
    host.publish_more(1);
    host.run("pull -q site pulled.bloom").ends(0);
    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    host.publish_more(2);
    let good = std::fs::read(host.path("site/manifest.json")).unwrap();
    let name = |place: usize| host.manifest()["deltas"][place]["name"].as_str().unwrap().to_owned();
    let delta = |place: usize| host.path("site").join(name(place));
    let file = |place: usize| std::fs::read(delta(place)).unwrap();
    let (newest, between) = (file(0), file(1));
    let zeros = "0".repeat(64);
    let falls_back = |reason: String| {
        // A snapshot that is wrong, too: an error, and the old file is in use.
        let snapshot = std::fs::read(host.snapshot()).unwrap();
        let mut wrong = snapshot.clone();
        *wrong.last_mut().unwrap() ^= 1;
        std::fs::write(host.snapshot(), wrong).unwrap();
        let ran = host.run("pull site pulled.bloom").ends(2);
        assert!(ran.err.contains("bloom is not what the manifest says"), "{reason}: {}", ran.err);
        assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old, "{reason}: changed");
        std::fs::write(host.snapshot(), snapshot).unwrap();
        let ran = host.run("pull --json site pulled.bloom").ends(0);
        let told = ran.json();
        assert_eq!((&told["way"], &told["deltas"]), (&json!("snapshot"), &json!(0)), "{reason}");
        let problems = told["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{reason}: {problems:?}");
        assert!(problems[0].as_str().unwrap().contains(&reason), "{reason}: {problems:?}");
        let warning = format!(
            "bloomfile: pulled.bloom: warning: cannot take deltas ({}), and is replaced by a snapshot\n",
            problems[0].as_str().unwrap()
        );
        assert_eq!(ran.err, warning);
        host.is_current();
        std::fs::write(host.path("pulled.bloom"), &old).unwrap();
        std::fs::write(host.path("site/manifest.json"), &good).unwrap();
        for (place, bytes) in [(0, &newest), (1, &between)] {
            std::fs::write(delta(place), bytes).unwrap();
        }
    };
    for place in [0, 1] {
        std::fs::remove_file(delta(place)).unwrap();
        falls_back(format!("site/{} is not there", name(place)));
        let mut damaged = file(place);
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(delta(place), &damaged).unwrap();
        falls_back(format!("{} is not what the manifest says: its SHA-256 is ", name(place)));
        damaged.truncate(middle);
        std::fs::write(delta(place), &damaged).unwrap();
        falls_back(format!("{} has {middle} bytes, and the manifest says ", name(place)));
        // Damaged before it was published: it has its hash.
        let damaged = {
            let mut bytes = file(place);
            bytes[middle] ^= 1;
            bytes
        };
        std::fs::write(delta(place), damaged).unwrap();
        let digest = Command::new("sha256sum").arg(delta(place)).output().unwrap().stdout;
        let digest = String::from_utf8(digest).unwrap()[..64].to_owned();
        lie(&host, |manifest| manifest["deltas"][place]["sha256"] = json!(digest));
        falls_back(format!("{}: is a damaged delta", name(place)));
        lie(&host, |manifest| manifest["deltas"][place]["sha256"] = json!(zeros));
        falls_back("is not what the manifest says".to_owned());
    }
    // A delta for another file, under its own hash.
    lie(&host, |manifest| {
        let other = manifest["deltas"][1].clone();
        for name in ["name", "bytes", "sha256"] {
            manifest["deltas"][0][name] = other[name].clone();
        }
    });
    falls_back("does not lead to version 4 as the manifest says".to_owned());
    // What is wrong here is no reason to fetch more.
    let filter = bloomfile::Filter::open(host.path("pulled.bloom")).unwrap();
    let ran = host.run("pull site pulled.bloom").ends(2);
    assert!(ran.err.contains("is being written by another process"), "{}", ran.err);
    assert!(!ran.err.contains("snapshot"), "{}", ran.err);
    filter.close().unwrap();
}

/// A damaged file here is no reason to stay with it.
#[test]
fn a_damaged_file_is_replaced_by_a_snapshot() {
    let host = Host::new();
    host.publish();
    host.run("pull -q site pulled.bloom").ends(0);
    host.publish_more(1);
    let mut bytes = std::fs::read(host.path("pulled.bloom")).unwrap();
    let place = bytes.len() - 5_000;
    bytes[place] ^= 8;
    std::fs::write(host.path("pulled.bloom"), bytes).unwrap();
    let ran = host.run("pull site pulled.bloom").ends(0);
    assert!(ran.out.contains("version 2 by a snapshot"), "{}", ran.out);
    assert!(ran.err.contains("is replaced by a snapshot"), "{}", ran.err);
    host.is_current();
}

#[cfg(feature = "sign")]
#[test]
fn signatures() {
    let minisign = |host: &Host, arguments: &str| {
        let mut command = Command::new("minisign");
        command.args(arguments.split(' ')).current_dir(host.path(""));
        command.output().map(crate::host::Ran::from)
    };
    let host = Host::new();
    if minisign(&host, "-G -W -p key.pub -s key.sec").is_err() {
        return eprintln!("skipped: signatures, which need minisign");
    }
    minisign(&host, "-G -W -p other.pub -s other.sec").unwrap().ends(0);
    host.run("publish -q live.bloom site --sign key.sec").ends(0);
    minisign(&host, "-V -m site/manifest.json -p key.pub").unwrap().ends(0);
    host.run("pull -q site pulled.bloom --verify-key key.pub").ends(0);
    let text = std::fs::read_to_string(host.path("key.pub")).unwrap();
    let key = text.lines().nth(1).unwrap();
    host.run(&format!("pull -q site pulled.bloom --verify-key {key}")).ends(1);

    let old = std::fs::read(host.path("pulled.bloom")).unwrap();
    host.add(500_000, 9);
    host.run("publish -q live.bloom site --sign other.sec").ends(0);
    let ran = host.run("pull site pulled.bloom --verify-key key.pub").ends(2);
    assert!(ran.err.contains("is not signed with the key given"), "{}", ran.err);
    // What minisign signs counts as well.
    minisign(&host, "-S -m site/manifest.json -s key.sec").unwrap().ends(0);
    lie(&host, |manifest| manifest["deltas"] = json!([]));
    let ran = host.run("pull site pulled.bloom --verify-key key.pub").ends(2);
    assert!(ran.err.contains("is not signed with the key given"), "{}", ran.err);
    minisign(&host, "-S -m site/manifest.json -s key.sec").unwrap().ends(0);
    assert!(std::fs::read(host.path("pulled.bloom")).unwrap() == old);
    host.run("pull site pulled.bloom --verify-key key.pub").ends(0);
    std::fs::remove_file(host.path("site/manifest.json.minisig")).unwrap();
    let ran = host.run("pull site pulled.bloom --verify-key key.pub").ends(2);
    assert!(ran.err.contains("manifest.json is not signed"), "{}", ran.err);
    for wrong in ["nonsense", "live.bloom"] {
        host.run(&format!("pull site pulled.bloom --verify-key {wrong}")).ends(2);
        host.run(&format!("publish live.bloom site --sign {wrong}")).ends(2);
    }
}

/// Other stores are named with a way to reach them all the same.
#[test]
fn sources_that_are_not_reached() {
    let host = Host::new();
    for (address, way) in [
        ("gs://bucket/words", "; Google Cloud Storage is read as s3://BUCKET/NAME with "),
        ("az://container/words", "; what is in Azure is read by https:// if all may read it, "),
        ("abfss://words@account/", "; what is in Azure is read by https:// if all may read it, "),
        ("sftp://host/words", "; copy it to a folder by other means, and name that\n"),
        ("gopher://host/words", "is none of file, http, https and s3\n"),
    ] {
        let ran = host.run(&format!("pull {address} pulled.bloom")).ends(2);
        assert!(ran.err.contains("none of file, http, https and s3"), "{}", ran.err);
        assert!(ran.err.contains(way), "{}", ran.err);
        if !address.starts_with("gopher") {
            for command in ["check", "inspect"] {
                let key = if command == "check" { " key" } else { "" };
                let ran = host.run(&format!("{command} {address}{key}")).ends(2);
                assert!(ran.err.contains(way), "{}", ran.err);
            }
        }
    }
}

/// The folders for the versions between two that are there.
fn folders_between(host: &Host) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(host.path("")).unwrap().map(|entry| entry.unwrap());
    let prefix = ".bloomfile-pull";
    entries
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with(prefix))
        .map(|entry| entry.path())
        .collect()
}

/// Pulls, and sends a signal as soon as there is a folder for the versions between. Tells whether that
/// ended it: it may have been done already.
fn stop(host: &Host, signal: Signal, status: Option<i32>) -> bool {
    std::fs::copy(host.path("first"), host.path("pulled.bloom")).unwrap();
    let mut child = host.command("pull -q site pulled.bloom").spawn().unwrap();
    while folders_between(host).is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    // From here, and not by a program: the folder is there for a moment.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal);
    let ended = child.wait().unwrap().code();
    assert!(ended == Some(0) || ended == status, "{signal}: {ended:?}");
    ended == status
}

#[test]
fn a_pull_that_is_interrupted_leaves_no_folder_and_one_that_is_killed_until_the_next() {
    let host = Host::new();
    host.publish();
    host.run("pull -q site pulled.bloom").ends(0);
    std::fs::copy(host.path("pulled.bloom"), host.path("first")).unwrap();
    host.publish_more(12);
    let signals = [(Signal::SIGHUP, 129), (Signal::SIGINT, 130), (Signal::SIGTERM, 143)];
    for (signal, status) in signals {
        let stopped = (0..500).any(|_| {
            let stopped = stop(&host, signal, Some(status));
            assert_eq!(folders_between(&host), [] as [PathBuf; 0], "{signal}");
            stopped
        });
        assert!(stopped, "{signal}: it was never in time");
    }
    let kill = || stop(&host, Signal::SIGKILL, None) && !folders_between(&host).is_empty();
    let left = (0..500).any(|_| kill());
    assert!(left, "it was never in time");
    host.run("pull -q site pulled.bloom").ends(0);
    host.is_current();

    // What another pull uses stays, and what is none of a pull's.
    let [used, empty, other] =
        ["used", "empty", "other"].map(|name| host.path(&format!(".bloomfile-pull-{name}")));
    for folder in [&used, &empty, &other] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(other.join("file"), "").unwrap();
    std::fs::write(used.join("0"), "").unwrap();
    let lock = std::fs::File::create(used.join("lock")).unwrap();
    lock.lock().unwrap();
    host.run("pull -q site pulled.bloom").ends(1);
    assert!(used.join("0").exists() && other.join("file").exists() && !empty.exists());
    drop(lock);
    host.run("pull -q site pulled.bloom").ends(1);
    assert!(!used.exists() && other.exists());
}
