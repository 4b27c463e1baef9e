//! Every rule of format-spec.md that can be tested is named by a test: in its name (`f86_…`), in the
//! comment before it, or in what it says when it fails.

use std::collections::{BTreeMap, BTreeSet};

use crate::*;

/// Rules that no test can hold a program against.
const UNTESTABLE: [(u64, &str); 6] = [
    (6, "says what words mean"),
    (
        101,
        "what a processor makes of a store cannot be made to go wrong; kernels say at each store",
    ),
    (110, "is assumed of disks; those of the power cuts do no more for a writer than it says"),
    (111, "is assumed of disks"),
    (112, "is assumed of systems, or asks for what has no caller where it does not hold"),
    (120, "says how authors of later versions change the format"),
];

/// The numbers of the rules, each of which stands in bold where it is stated.
fn rules() -> BTreeSet<u64> {
    let spec = std::fs::read_to_string(source().join("format-spec.md")).unwrap();
    let lines = spec.lines().filter_map(|line| line.strip_prefix("- **F-"));
    lines.map(|line| line.split("**").next().unwrap().parse().unwrap()).collect()
}

/// The text of each test of a file, with the comment in front of it.
fn tests(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = (0..lines.len()).filter(|&at| lines[at].trim() == "#[test]");
    let test = |at: usize| {
        let before = lines[..at].iter().rev();
        let comment = before.take_while(|line| line.trim_start().starts_with(['/', '#'])).count();
        let indent = lines[at].len() - lines[at].trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let length = lines[at..].iter().take_while(|line| **line != end).count();
        lines[at - comment..at + length].join("\n")
    };
    starts.map(test).collect()
}

/// The rules that a test names: `F-86`, `F-90 to F-94`, `f86_`, `f41_and_f42_`, `f52_to_f54_`.
fn named(test: &str) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let name = test.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).unwrap_or("");
    let in_name = name.split('_').map(|word| match word {
        "to" => Some(None),
        word => word.strip_prefix('f').and_then(|digits| digits.parse().ok()).map(Some),
    });
    let text = test.replace("\n", " ").replace("//", " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let in_text = words.iter().map(|word| match *word {
        "to" => Some(None),
        word => {
            let word = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let digits: String =
                word.strip_prefix("F-")?.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok().map(Some)
        }
    });
    for words in [in_name.collect::<Vec<_>>(), in_text.collect()] {
        for (at, word) in words.iter().enumerate() {
            let &Some(Some(rule)) = word else { continue };
            found.insert(rule);
            if let (Some(Some(None)), Some(&Some(Some(last)))) =
                (words.get(at + 1), words.get(at + 2))
            {
                found.extend(rule..=last);
            }
        }
    }
    found
}

/// All tests of the library and the command.
fn all_tests() -> Vec<String> {
    let mut folders: Vec<PathBuf> =
        ["src", "tests", "tools/src", "tools/tests"].map(|folder| source().join(folder)).into();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("named.rs")
            {
                found.extend(tests(&std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn every_rule_that_can_be_tested_is_named_by_a_test() {
    if !source().join("tools").exists() {
        println!("skipped: the names of rules, for which the command's tests have to be there");
        return;
    }
    let (rules, tests) = (rules(), all_tests());
    assert!(rules.len() > 100 && tests.len() > 300, "{} rules, {}", rules.len(), tests.len());
    let mut by_rule: BTreeMap<u64, usize> = BTreeMap::new();
    for rule in tests.iter().flat_map(|test| named(test)) {
        *by_rule.entry(rule).or_default() += 1;
    }
    let untestable: BTreeMap<u64, &str> = UNTESTABLE.into();
    for (rule, why) in &untestable {
        assert!(rules.contains(rule), "F-{rule} is not there: {why}");
        assert!(!by_rule.contains_key(rule), "F-{rule} is named by a test, although it {why}");
    }
    let missing: Vec<&u64> = rules
        .iter()
        .filter(|rule| !by_rule.contains_key(rule) && !untestable.contains_key(rule))
        .collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
    println!("{} of {} rules are named by tests", by_rule.len(), rules.len());
}

/// The test above can fail.
#[test]
fn names_are_found_in_tests_alone() {
    let text = "/// Of F-1.\nfn help() {}\n\n/// As F-2 and F-30 to F-32 say.\n#[test]\n#[ignore]\n\
        fn f4_and_f5_it() {\n    assert!(true, \"(F-11)\");\n}\n\n// F-12\nfn other() {}\n";
    let found = tests(text);
    assert_eq!(found.len(), 1, "{found:?}");
    let numbers: Vec<u64> = named(&found[0]).into_iter().collect();
    assert_eq!(numbers, [2, 4, 5, 11, 30, 31, 32]);
    assert_eq!(named("fn f52_to_f54_cells() {").into_iter().collect::<Vec<_>>(), [52, 53, 54]);
}
