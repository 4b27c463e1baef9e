//! `bloomfile bench`.

use crate::sandbox::Sandbox;

#[test]
fn bench_measures_every_way_of_asking_and_changes_nothing() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run_with("build a.bloom", "sheep\ngoat\n").code, Some(0));
    let before = sandbox.read("a.bloom");
    let output = sandbox.run("bench a.bloom -n 1000");
    assert_eq!(output.code, Some(0));
    for part in ["one by one", "in batches", "thread", "in memory", "of 1,000 random keys"] {
        assert!(output.out.contains(part), "{part} in {}", output.out);
    }
    assert_eq!(sandbox.read("a.bloom"), before);
    assert_eq!(sandbox.run("bench missing.bloom").code, Some(2));
}
