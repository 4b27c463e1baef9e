//! `build --part` and `join`.

use crate::sandbox::{Sandbox, hex_lines};

const KEYS: &str = "--capacity 20000 --fpr 0.1%";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let keys: String = (0..20_000).map(|number| format!("key {number}\n")).collect();
    sandbox.write("keys.txt", keys.as_bytes());
    sandbox
}

#[test]
fn the_bytes_of_all_parts_joined_are_those_of_one_build() {
    let sandbox = sandbox();
    for options in ["--quiet", "--layout page --seed 3", "--sealed", "--meta a=b --lower"] {
        let build = format!("build -f once.bloom keys.txt {KEYS} {options}");
        assert_eq!(sandbox.run(&build).code, Some(0));
        for parts in [1, 2, 7, 64] {
            let mut names = String::new();
            for part in 1..=parts {
                let command =
                    format!("build -f {part}.part keys.txt --part {part}/{parts} {KEYS} {options}");
                assert_eq!(sandbox.run(&command).code, Some(0));
                // The last one first.
                names = format!("{part}.part {names}");
            }
            sandbox.run(&format!("join -qfo joined.bloom {}", names.trim_end())).is(0, "", "");
            assert!(
                sandbox.read("joined.bloom") == sandbox.read("once.bloom"),
                "{options} in {parts} parts"
            );
        }
    }
}

#[test]
fn what_was_done_is_said() {
    let sandbox = sandbox();
    sandbox.run(&format!("build 1.part keys.txt --part 1/2 {KEYS}")).is(
        0,
        "1.part: part 1 of 2: 20,000 keys read, 10,448 of them in this part; 5 pages; 36 KiB\n",
        "",
    );
    let told = sandbox.run(&format!("build 2.part keys.txt --part 2/2 {KEYS} --json"));
    assert_eq!(told.code, Some(0));
    for pair in ["\"part\": 2", "\"parts\": 2", "\"keys\": 20000", "\"taken\": 9552"] {
        assert!(told.out.contains(pair), "{}", told.out);
    }
    let told = sandbox.run("join -o all.bloom 2.part 1.part");
    told.is(0, "all.bloom: joined of 2 parts; 19,998 keys; 56 KiB\n", "");
    let told = sandbox.run("join -fo all.bloom 2.part 1.part --json");
    assert!(told.out.contains("\"capacity\": 20000"), "{}", told.out);
}

/// The same warning of `build`, of its part and of `join`.
#[test]
fn pages_that_answer_maybe_are_warned_of() {
    let sandbox = Sandbox::new();
    let attacker = crate::attacker::Attacker::new();
    // All in the first of the nine pages that 40,000 keys take.
    let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 6;
    let keys = (0..40_000).map(|number| attacker.key(hash(number), number));
    sandbox.write("keys.txt", hex_lines(keys).as_bytes());
    let warning = |file: &str, pages: u32| {
        format!(
            "bloomfile: {file}: warning: 1 page of {pages} got keys that cannot be told apart, and \
             answer \"maybe\" for every key\n"
        )
    };
    let build = "keys.txt --sealed --hex -n 40000";
    let ran = sandbox.run(&format!("build 1.part {build} --part 1/2"));
    assert_eq!((ran.code, ran.err), (Some(0), warning("1.part", 4)));
    let json = sandbox.run(&format!("build -f 1.part {build} --part 1/2 --json"));
    assert!(json.out.contains("\"maybe_pages\": 1"), "{json:?}");
    sandbox.run(&format!("build -qf 1.part {build} --part 1/2")).is(0, "", "");
    let ran = sandbox.run(&format!("build 2.part {build} --part 2/2"));
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    for json in ["", " --json"] {
        let ran = sandbox.run(&format!("join -fo all.bloom 1.part 2.part{json}"));
        assert_eq!((ran.code, ran.err), (Some(0), warning("all.bloom", 9)));
    }
    sandbox.run("join -qfo all.bloom 1.part 2.part").is(0, "", "");
}

#[test]
fn mistakes_are_said() {
    let sandbox = sandbox();
    let fails = |command: &str, message: &str| {
        let told = sandbox.run(command);
        assert!(told.code == Some(2) && told.err.contains(message), "{command}: {told:?}");
        assert!(!sandbox.path("all.bloom").exists());
    };
    sandbox.run(&format!("build -q 1.part keys.txt --part 1/2 {KEYS}")).is(0, "", "");
    fails("build x.part keys.txt --part 1/2", "a part needs --capacity");
    for part in ["0/2", "3/2", "1", "a/b", "1/"] {
        fails(&format!("build x.part keys.txt {KEYS} --part {part}"), "not a part I/N");
    }
    fails(&format!("build 1.part keys.txt {KEYS} --part 1/2"), "already exists");
    fails(&format!("build x.part keys.txt {KEYS} --part 1/2 --layout flat"), "has no parts");
    fails("join -o all.bloom 1.part", "part 2 of 2 is missing");
    fails("join -o all.bloom 1.part 1.part", "part 1 is there twice, as 1.part and 1.part");
    fails("join -o all.bloom keys.txt", "keys.txt: is not a part of a filter");
    fails("check 1.part x", "a part of a filter; join it with the others");
}
