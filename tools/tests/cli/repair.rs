//! Clean, live, crashed and damaged files: what `verify`, `inspect` and `repair` say of each.

use std::io::Write;

use crate::processes::{add, start_writer, wait_for_writer};
use crate::sandbox::{Sandbox, no_file, numbers};

/// A sandbox with `a.bloom`, made for 20,000 keys in 7 pages, which holds the first 1,000 numbers.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run_with("build -q a.bloom -n 20k -p 1% --journal 8KiB", numbers(1000)).is(0, "", "");
    sandbox
}

/// Overwrites bytes this far before the end of the file: data stand there.
fn overwrite(sandbox: &Sandbox, before_end: usize, with: &[u8]) {
    let mut bytes = sandbox.read("a.bloom");
    let start = bytes.len() - before_end;
    bytes[start..start + with.len()].copy_from_slice(with);
    sandbox.write("a.bloom", bytes);
}

/// Makes `a.bloom` a file that was written in another boot of the machine, as after a power cut
/// (F-114).
pub(crate) fn power_cut(sandbox: &Sandbox) {
    let mut bytes = sandbox.read("a.bloom");
    let sequence = |slot: usize| u64::from_le_bytes(bytes[slot + 8..][..8].try_into().unwrap());
    let slot = if sequence(4096) > sequence(8192) { 4096 } else { 8192 };
    bytes[slot + 96..slot + 112].fill(0xb0);
    let crc = crc32fast::hash(&bytes[slot..slot + 4092]);
    bytes[slot + 4092..slot + 4096].copy_from_slice(&crc.to_le_bytes());
    sandbox.write("a.bloom", bytes);
}

/// Leaves `a.bloom` as a writer that added two keys and was killed leaves it.
fn crash(sandbox: &Sandbox) {
    let (mut writer, mut lines) = start_writer(sandbox);
    for key in ["sheep", "cow"] {
        add(&mut writer, &mut lines, key);
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}

const ALL_THERE: &str = "1000\n";

/// Repairs `a.bloom`, whose last page is lost, and finds it sound with all keys in it. `rows` stand
/// in the report behind the pages.
#[track_caller]
fn repairs_the_last_page(sandbox: &Sandbox, rows: &str) {
    let ran = sandbox.run("repair a.bloom");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let report = format!("  pages         1 of 7 pages set to all ones (page 6)\n{rows}");
    assert!(ran.out.contains(&report), "{}", ran.out);
    sandbox.run("verify a.bloom").is(0, "a.bloom: sound: 7 pages as written\n", "");
    sandbox.run_with("check -c a.bloom", numbers(1000)).is(0, ALL_THERE, "");
}

#[test]
fn a_sound_file_is_left_alone() {
    let sandbox = sandbox();
    let before = sandbox.read("a.bloom");
    sandbox.run("repair a.bloom").is(0, "a.bloom: nothing to repair: 7 pages as written\n", "");
    assert_eq!(sandbox.read("a.bloom"), before);
}

#[test]
fn a_damaged_page_is_named_and_filled() {
    let sandbox = sandbox();
    // Half of page 2.
    overwrite(&sandbox, 5 * 4096, &[0; 2048]);
    sandbox.run("verify a.bloom").is(
        1,
        "a.bloom: damaged: 1 of 7 pages not as written (page 2); restore the file from a copy or \
         build it again, or run repair, which answers \"maybe\" for what was lost\n",
        "",
    );
    sandbox.run("repair a.bloom").is(
        0,
        "a.bloom: repaired: it never answers \"no\" wrongly, but \"maybe\" more often than before

  pages         1 of 7 pages set to all ones (page 2)
  rate now      16.2 % (1 in 6)
  advice        restore it from a copy, or build it again, when you can
",
        "",
    );
    sandbox.run("verify a.bloom").is(0, "a.bloom: sound: 7 pages as written\n", "");
    sandbox.run_with("check -c a.bloom", numbers(1000)).is(0, ALL_THERE, "");
    let inspection = sandbox.run("inspect a.bloom").out;
    let health =
        "health        closed in good order\n                1 page repaired: set to all ones\n";
    assert!(inspection.contains(health), "{inspection}");
    assert!(inspection.contains("rate now      16.2 % (1 in 6)\n"), "{inspection}");
    sandbox.run("repair a.bloom").is(0, "a.bloom: nothing to repair: 7 pages as written\n", "");
}

#[test]
fn a_damaged_page_table_is_made_again() {
    let sandbox = sandbox();
    // The first of the two tables counts in a file that was built: its last entry.
    overwrite(&sandbox, 8 * 4096 - 6 * 8, &[7; 8]);
    let reason = "is damaged (no page can have what it says of page 6: checksum 07070707, 117901063 \
                  ones); restore the file from a copy, or run repair, which answers \"maybe\" for what was lost\n";
    for command in ["inspect a.bloom", "check a.bloom 1", "add a.bloom 1"] {
        let ran = sandbox.run(command);
        ran.is(2, "", &format!("bloomfile: a.bloom: the page table {reason}"));
    }
    sandbox.run("verify a.bloom").is(1, &format!("a.bloom: damaged: the page table {reason}"), "");
    repairs_the_last_page(&sandbox, "  page table    was damaged; made again from the data\n");
}

#[test]
fn a_crash_is_told_from_damage() {
    let sandbox = sandbox();
    crash(&sandbox);
    let crashed = sandbox.read("a.bloom");
    sandbox.run("repair a.bloom").is(
        0,
        "a.bloom: recovered after a crash, nothing was damaged: 2 adds replayed\n",
        "",
    );
    sandbox.run("check --all a.bloom sheep cow 1").is(0, "sheep\ncow\n1\n", "");

    // A bit that no record explains is damage in the boot in which the file was written…
    sandbox.write("a.bloom", &crashed);
    let byte = crashed[crashed.len() - 4096] | (!crashed[crashed.len() - 4096] & 0x7f);
    overwrite(&sandbox, 4096, &[byte]);
    let ran = sandbox.run("verify a.bloom");
    assert!(ran.out.starts_with("a.bloom: damaged: 1 of 7 pages not as written (page 6);"));
    assert_eq!(ran.code, Some(1));
    let error = "bloomfile: a.bloom: 1 data page is damaged (first: page 6 of segment 0)";
    for command in ["add a.bloom x", "check a.bloom x"] {
        let ran = sandbox.run(command);
        assert!(ran.err.starts_with(error), "{}", ran.err);
        assert_eq!(ran.code, Some(2));
    }
    // … and what a power cut may leave in another: then it cannot be told from damage.
    power_cut(&sandbox);
    let before = sandbox.read("a.bloom");
    // Those who ask it are told, as long as that is so.
    let uncertain = |file: &str| {
        format!(
            "bloomfile: {file}: warning: 1 page cannot be verified: a key that damage took from there \
             counts as absent, so that a \"no\" is not certain; verify tells more\n"
        )
    };
    let asked = |file: &str| {
        let warning = uncertain(file);
        sandbox.run(&format!("check {file} absent")).is(1, "", &warning);
        sandbox.run(&format!("check -q {file} sheep")).is(0, "", &warning);
        sandbox.run(&format!("which absent {file}")).is(1, "absent\n", &warning);
        let json = "\"record\":null,\"pages_unverified\":1}\n";
        let no = format!("{{\"key\":\"absent\",\"answer\":\"no\",{json}");
        sandbox.run(&format!("check --json {file} absent")).is(1, &no, &warning);
        let none = format!("{{\"key\":\"absent\",\"files\":[],{json}");
        sandbox.run(&format!("which --json absent {file}")).is(1, &none, &warning);
    };
    asked("a.bloom");
    let inspection = sandbox.run("inspect a.bloom").out;
    let unchecked = "its pages were not checked here: verify tells which cannot be verified\n";
    assert!(inspection.contains(unchecked), "{inspection}");
    sandbox.run("verify a.bloom").is(
        2,
        "a.bloom: not verifiable: 1 of 7 pages holds more than checksums and journal explain (page \
         6): keys that were added and not synced, or damage; left open by a writer that crashed; \
         opening it for writing recovers it\n",
        "",
    );
    let verified = sandbox.run("verify --json a.bloom").out;
    assert!(verified.contains("\"verdict\": \"unverifiable\""), "{verified}");
    assert!(verified.contains("\"pages_unverifiable\": [\n          6\n"), "{verified}");
    sandbox.run("repair a.bloom").is(
        2,
        "",
        "bloomfile: a.bloom: was left open by a crash and shows no damage; recover it with \
         bloomfile repair --recover a.bloom, which keeps 1 page that cannot be verified, or set \
         these pages to all ones with --force\n",
    );
    assert_eq!(sandbox.read("a.bloom"), before);
    // The next writer keeps what the page holds, and gives it a checksum: that stays known.
    sandbox.write("kept.bloom", &before);
    sandbox.run("add -q kept.bloom horse").is(0, "", "");
    let told = "not verifiable: 1 page kept by a recovery, or taken from another file, not verifiable \
                then: keys that were added and not synced, or damage (to be sure, build it again from \
                the keys, or restore it from a copy); now 7 pages as written";
    sandbox.run("verify kept.bloom").is(2, &format!("kept.bloom: {told}\n"), "");
    asked("kept.bloom");
    let inspection = sandbox.run("inspect kept.bloom").out;
    let advice =
        "advice        build it again from the keys, or restore it from a copy: 1 page could";
    assert!(inspection.contains(advice) && !inspection.contains(unchecked), "{inspection}");
    let verified = sandbox.run("verify --json kept.bloom").out;
    assert!(verified.contains("\"verdict\": \"unverifiable\""), "{verified}");
    assert!(verified.contains("\"pages_kept_unverified\": 1"), "{verified}");
    // So does what is made of it. Its contents are those that they are expected to be all the same.
    sandbox.run("compact -qo merged.bloom kept.bloom").is(0, "", "");
    let digest = sandbox.run("inspect --digest --json kept.bloom").out;
    let digest: serde_json::Value = serde_json::from_str(&digest).unwrap();
    let digest = digest["digest"].as_str().unwrap();
    sandbox.run(&format!("verify merged.bloom --expect {digest}")).is(
        2,
        &format!("merged.bloom: {told}; the digest is the one expected\n"),
        "",
    );
    let ran = sandbox.run("merge -o again.bloom a.bloom a.bloom");
    let warning = "of keys that had not been synced, or of damage: they are in the result, which is \
                   not called sound";
    assert!(ran.err.contains(warning), "{ran:?}");
    sandbox.run("repair --force a.bloom").is(
        0,
        "a.bloom: repaired: it never answers \"no\" wrongly, but \"maybe\" more often than before

  pages         1 of 7 pages set to all ones (page 6)
  crash         recovered: 2 adds replayed
  rate now      3.03 % (1 in 33)
  advice        restore it from a copy, or build it again, when you can
",
        "",
    );

    // The same, left to recovery.
    sandbox.write("a.bloom", &before);
    sandbox.run("add a.bloom").is(
        0,
        "a.bloom: 0 keys read\n",
        "bloomfile: a.bloom: recovered after a crash: 2 adds replayed, 1 page not \
         verifiable\n",
    );
    let inspection = sandbox.run("inspect a.bloom").out;
    assert!(inspection.contains("1 page not verifiable, and kept by a recovery\n"), "{inspection}");
    sandbox.run("check --all a.bloom sheep cow 1").is(0, "sheep\ncow\n1\n", &uncertain("a.bloom"));
}

#[test]
fn damage_after_a_crash() {
    let sandbox = sandbox();
    crash(&sandbox);
    overwrite(&sandbox, 4096, &[0; 4096]);
    let ran = sandbox.run("inspect a.bloom");
    assert!(ran.out.contains("health        left open by a writer that crashed;"), "{}", ran.out);
    let error = "bloomfile: a.bloom: 1 data page is damaged (first: page 6 of segment 0: bits were \
                 lost); restore the file from a copy, or run repair, which answers \"maybe\" for \
                 what was lost\n";
    sandbox.run("add a.bloom x").is(2, "", error);
    sandbox.run("check a.bloom x").is(2, "", error);
    repairs_the_last_page(&sandbox, "  crash         recovered: 2 adds replayed\n");
}

#[test]
fn what_cannot_be_repaired() {
    let sandbox = sandbox();
    let sound = sandbox.read("a.bloom");
    let refused = |bytes: &[u8], reason: &str| {
        sandbox.write("a.bloom", bytes);
        let ran = sandbox.run("repair a.bloom");
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
        assert!(ran.err.starts_with(&format!("bloomfile: a.bloom: {reason}")), "{}", ran.err);
        assert!(ran.err.ends_with("; repair cannot help\n"), "{}", ran.err);
        assert_eq!(sandbox.read("a.bloom"), bytes, "refused, yet changed");
    };
    let changed = |places: &[usize]| {
        let mut bytes = sound.clone();
        places.iter().for_each(|&place| bytes[place] ^= 1);
        bytes
    };
    refused(&changed(&[40]), "the superblock is damaged (checksum ");
    refused(&changed(&[4096 + 40, 8192 + 40]), "both state slots are damaged, so ");
    refused(&sound[..sound.len() - 1], "is 53247 bytes long, its headers ");
    sandbox.run("repair missing.bloom").is(
        2,
        "",
        &format!(
            "bloomfile: missing.bloom: cannot open the file for writing: {}; check the path\n",
            no_file()
        ),
    );
}

#[test]
fn a_file_that_is_being_written_is_not_repaired() {
    let sandbox = Sandbox::with_filter();
    let mut writer = sandbox.spawn("add a.bloom");
    writer.stdin.as_mut().unwrap().write_all(b"sheep\n").unwrap();
    wait_for_writer(&sandbox);
    let health = "health        being written by another process right now\n                1 add \
                  in the journal, counted above\n  advice ";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut inspection = sandbox.run("inspect a.bloom").out;
    // A record is seen once it is whole.
    while !inspection.contains(health) && std::time::Instant::now() < deadline {
        inspection = sandbox.run("inspect a.bloom").out;
    }
    assert!(inspection.contains(health), "{inspection}");
    sandbox.run("repair a.bloom").is(
        2,
        "",
        "bloomfile: a.bloom: is being written by another process; wait for it to finish, or open \
         it for reading\n",
    );
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
}
